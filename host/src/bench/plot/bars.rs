//! The bar chart: how near each row comes to the floor that binds it.

use super::svg::width;
use super::{Anchor, Canvas, LINE, MARGIN, SMALL, Text, WIDTH, colour, cut, number, row_colour};
use crate::bench::row::{Report, Row, Status};

const BAR: f64 = 16.0;
const STEP: f64 = 24.0;
/// Width of the column with the values, right of the bars.
const VALUES: f64 = 330.0;
const PEER_CHARACTERS: usize = 30;

/// Draws it below `top` and returns where the next thing may begin.
pub fn draw(canvas: &mut Canvas, report: &Report, top: f64) -> f64 {
    canvas.text(Text::new(MARGIN, top, "Cold time: percent of floor").bold());
    key(canvas, report, top + LINE + 6.0);
    let labels: Vec<String> = report
        .rows
        .iter()
        .enumerate()
        .map(|(index, row)| format!("{:>2} {}", number(index), cut(&row.label(), 56)))
        .collect();
    let label_width = labels
        .iter()
        .map(|label| width(label, SMALL))
        .fold(0.0, f64::max);
    let left = MARGIN + label_width + 10.0;
    let right = WIDTH - MARGIN - VALUES;
    let highest = report
        .rows
        .iter()
        .flat_map(|row| [share(row), peer_share(row)])
        .flatten()
        .fold(1.0, f64::max);
    // Room above 100 percent only if something stands there.
    let full = if highest > 1.0 {
        (highest * 10.0).ceil() / 10.0
    } else {
        1.0
    };
    let x = |share: f64| left + share.min(full) / full * (right - left);
    let upper = top + 3.0 * LINE;
    let lower = upper + STEP * report.rows.len() as f64 + 6.0;

    let marks: &[f64] = if full > 2.5 {
        &[0.0, 1.0]
    } else {
        &[0.0, 0.25, 0.5, 0.75, 1.0]
    };
    for &mark in marks {
        let line = if mark == 1.0 {
            colour::AXIS
        } else {
            colour::FAINT
        };
        canvas.line((x(mark), upper), (x(mark), lower), line, 1.0);
        canvas.text(
            Text::new(x(mark), lower + LINE, &format!("{:.0}%", 100.0 * mark))
                .anchor(Anchor::Middle),
        );
    }
    for (index, (row, label)) in report.rows.iter().zip(&labels).enumerate() {
        let y = upper + 6.0 + STEP * index as f64;
        let base = y + BAR - 4.0;
        canvas.text(Text::new(MARGIN, base, label));
        if let Some(share) = share(row) {
            canvas.rectangle((left, y), (x(share) - left, BAR), row_colour(row));
        }
        if let Some(share) = peer_share(row) {
            canvas.diamond((x(share), y + BAR / 2.0), 6.0, colour::PEER);
        }
        let value = Text::new(right + 14.0, base, &value(row));
        canvas.text(if row.status == Status::Ok {
            value
        } else {
            value.colour(colour::FAILED).bold()
        });
    }
    lower + LINE + 6.0
}

/// The floor as a share of the time.
fn share(row: &Row) -> Option<f64> {
    let share = 1.0 / row.floor?.over;
    share.is_finite().then_some(share)
}

fn peer_share(row: &Row) -> Option<f64> {
    let share = row.floor?.us() / row.peer.as_ref()?.us;
    share.is_finite().then_some(share)
}

fn value(row: &Row) -> String {
    let percent = share(row).map(|share| format!("{:5.1}%", 100.0 * share));
    let mut text = match row.status {
        Status::Ok => percent.unwrap_or_default(),
        status => status.name().to_owned(),
    };
    if let (Status::Ok, Some(peer)) = (row.status, &row.peer) {
        let name = cut(&peer.peer, PEER_CHARACTERS);
        text = format!("{text}  {:.2}x {name}", peer.ratio);
    }
    text
}

fn key(canvas: &mut Canvas, report: &Report, y: f64) {
    let mut entries = vec![
        ("bytes bind", colour::BYTES),
        ("operations bind", colour::OPERATIONS),
        ("launch binds", colour::LAUNCH),
    ];
    if report.rows.iter().any(|row| row.status != Status::Ok) {
        entries.push(("does not count", colour::FAILED));
    }
    let mut x = MARGIN;
    for (text, fill) in entries {
        canvas.rectangle((x, y - 10.0), (12.0, 12.0), fill);
        canvas.text(Text::new(x + 18.0, y, text));
        x += 18.0 + width(text, SMALL) + 24.0;
    }
    if report.rows.iter().any(|row| row.peer.is_some()) {
        canvas.diamond((x + 6.0, y - 4.0), 6.0, colour::PEER);
        let text = "best peer (its time over ours: 1.10x = we are faster)";
        canvas.text(Text::new(x + 18.0, y, text));
    }
}
