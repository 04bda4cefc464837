//! The report as a picture: a roofline above a bar chart of percent of floor, in one SVG.
//!
//! Written by hand rather than with a plotting crate: with two dozen points of which half
//! stand on each other, the labels' places are the whole problem. Text is monospaced, so
//! its extent is known here, whatever font the viewer has, and a test can tell that no
//! label covers another.

mod bars;
mod roofline;
mod svg;

use super::row::{Report, Row, Status};
use svg::{Anchor, Canvas, Text};

/// Width of the picture, in pixels.
const WIDTH: f64 = 1240.0;
/// Text size of labels.
const SMALL: f64 = 12.0;
/// Text size of headings.
const LARGE: f64 = 16.0;
/// Distance between the lines of a list.
const LINE: f64 = 18.0;
/// Distance from the picture's edge.
const MARGIN: f64 = 28.0;

/// Colours (after Okabe and Ito: told apart with any colour vision).
mod colour {
    pub const TEXT: &str = "#222222";
    pub const FAINT: &str = "#dddddd";
    pub const AXIS: &str = "#777777";
    pub const BYTES: &str = "#0072b2";
    pub const OPERATIONS: &str = "#e69f00";
    pub const LAUNCH: &str = "#999999";
    pub const FAILED: &str = "#d55e00";
    pub const PEER: &str = "#000000";
    pub const ROOFS: [&str; 5] = ["#009e73", "#0072b2", "#56b4e9", "#cc79a7", "#e69f00"];
}

/// The picture, as the text of an SVG file.
pub fn render(report: &Report) -> String {
    draw(report).finish()
}

fn draw(report: &Report) -> Canvas {
    let mut canvas = Canvas::new(WIDTH);
    let top = heading(&mut canvas, report);
    let top = roofline::draw(&mut canvas, report, top);
    let bottom = bars::draw(&mut canvas, report, top);
    canvas.set_height(bottom + MARGIN);
    canvas
}

fn heading(canvas: &mut Canvas, report: &Report) -> f64 {
    let commit = report.commit.as_ref().map(|commit| format!(" ({commit})"));
    canvas.text(
        Text::new(MARGIN, MARGIN + LARGE, &report.device)
            .size(LARGE)
            .bold(),
    );
    let line = format!(
        "ferroseq {}{}, {}{}",
        report.version,
        commit.unwrap_or_default(),
        report.date,
        report
            .driver
            .as_ref()
            .map(|driver| format!(", driver {driver}"))
            .unwrap_or_default(),
    );
    canvas.text(Text::new(MARGIN, MARGIN + LARGE + LINE, &line));
    MARGIN + LARGE + LINE + MARGIN
}

/// The number by which the two pictures call a row.
fn number(index: usize) -> String {
    (index + 1).to_string()
}

/// The colour of a row: what binds it, or that it does not count.
fn row_colour(row: &Row) -> &'static str {
    use super::row::Binds;
    match (row.status, row.floor.map(|floor| floor.binds)) {
        (Status::Ok, Some(Binds::Bytes)) => colour::BYTES,
        (Status::Ok, Some(Binds::Operations)) => colour::OPERATIONS,
        (Status::Ok, Some(Binds::Launch)) => colour::LAUNCH,
        _ => colour::FAILED,
    }
}

/// The end of `text`, cut to `characters`.
fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{sample_report, sample_report_with};

    fn check(report: &Report) {
        let canvas = draw(report);
        let overlaps = canvas.overlaps();
        assert!(overlaps.is_empty(), "{overlaps:#?}");
        let outside = canvas.outside();
        assert!(outside.is_empty(), "{outside:#?}");
    }

    #[test]
    fn labels_are_there_and_do_not_overlap() {
        let report = sample_report();
        check(&report);
        let svg = render(&report);
        for row in &report.rows {
            assert!(svg.contains(&row.label()), "{}", row.label());
        }
        for word in [
            "triad",
            "copy",
            "exp2",
            "fma",
            "percent of floor",
            "op/byte",
        ] {
            assert!(svg.contains(word), "{word}");
        }
    }

    #[test]
    fn any_number_of_rows() {
        for rows in [0, 1, 2, 16, 18, 40, 75] {
            check(&sample_report_with(rows));
        }
    }

    #[test]
    fn failed_rows_peers_and_no_arithmetic() {
        let mut report = sample_report();
        report.ceilings.exp2 = None;
        report.ceilings.fma = None;
        report.rows[0].status = Status::Failed;
        report.rows[1].cold = None;
        report.rows[1].floor = None;
        report.rows[1].status = Status::Failed;
        for row in &mut report.rows {
            row.peer = Some(crate::bench::row::PeerMatch {
                peer: "scan <warp> & co, with a name that goes on and on".to_owned(),
                us: 108.0,
                ratio: 1.1,
            });
        }
        check(&report);
        let svg = render(&report);
        assert!(svg.contains("FAILED") && svg.contains("&lt;warp&gt; &amp; co"));
        assert!(!svg.contains("<warp>"));
    }

    #[test]
    fn points_on_one_spot() {
        let mut report = sample_report();
        let first = report.rows[0].clone();
        for row in &mut report.rows {
            *row = first.clone();
        }
        check(&report);
    }

    #[test]
    fn cutting() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("a longer text", 9), "a longer…");
    }
}
