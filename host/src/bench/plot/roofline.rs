//! The roofline (Williams, Waterman, Patterson 2009): operations a second over operations
//! a byte, each row a point under the ceilings measured in the same run.

use super::svg::width;
use super::{Anchor, Canvas, LINE, MARGIN, SMALL, Text, WIDTH, colour, cut, number, row_colour};
use crate::bench::row::{Report, per_us};

const LEFT: f64 = 84.0;
const PLOT_WIDTH: f64 = 620.0;
const LEGEND: f64 = LEFT + PLOT_WIDTH + 40.0;
const MIN_HEIGHT: f64 = 480.0;
/// Points nearer than this, in pixels along x, share a column of labels.
const CLUSTER: f64 = 44.0;
/// From a cluster to its first column of labels.
const REACH: f64 = 18.0;
/// Distance between labels in a column.
const SPACING: f64 = 13.0;
const RADIUS: f64 = 4.0;

/// A logarithmic axis: decades `from` to `to` over a stretch of pixels.
#[derive(Clone, Copy)]
struct Axis {
    from: i32,
    to: i32,
    start: f64,
    end: f64,
}

impl Axis {
    /// Whole decades around `values`, with parts of a decade kept free below and above.
    fn around(values: &[f64], (below, above): (f64, f64), start: f64, end: f64) -> Self {
        let logs = values.iter().map(|value| value.log10());
        let low = logs.clone().fold(f64::INFINITY, f64::min);
        let high = logs.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low.is_finite() && high.is_finite() {
            (low, high)
        } else {
            (0.0, 1.0)
        };
        let (from, to) = ((low - below).floor() as i32, (high + above).ceil() as i32);
        Self {
            from,
            to: to.max(from + 1),
            start,
            end,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// The value that stands at `pixel`.
    fn value(&self, pixel: f64) -> f64 {
        let share = (pixel - self.start) / (self.end - self.start);
        10f64.powf(f64::from(self.from) + share * f64::from(self.to - self.from))
    }

    fn low(&self) -> f64 {
        10f64.powi(self.from)
    }

    fn high(&self) -> f64 {
        10f64.powi(self.to)
    }
}

/// A roof: a slope (GB/s) or a height (Gop/s).
struct Roof {
    name: String,
    rate: f64,
    sloped: bool,
}

struct Point {
    index: usize,
    x: f64,
    y: f64,
}

/// Draws it below `top` and returns where the next thing may begin.
pub fn draw(canvas: &mut Canvas, report: &Report, top: f64) -> f64 {
    canvas.text(
        Text::new(
            MARGIN,
            top,
            "Roofline: cold times under the ceilings of this run",
        )
        .bold(),
    );
    let roofs = roofs(report);
    let legend_lines = roofs.len() + 1 + report.rows.len();
    let height = (legend_lines as f64 * LINE).max(MIN_HEIGHT);
    let (upper, lower) = (top + 2.0 * LINE, top + 2.0 * LINE + height);

    let found: Vec<(usize, f64, f64)> = report
        .rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let us = row.cold?.median_us;
            let operations = row.operations.total();
            let intensity = operations as f64 / row.bytes as f64;
            let rate = per_us(operations, us);
            let drawable = intensity.is_normal() && rate.is_normal();
            drawable.then_some((index, intensity, rate))
        })
        .collect();
    let mut intensities: Vec<f64> = found.iter().map(|p| p.1).collect();
    let mut rates: Vec<f64> = found.iter().map(|p| p.2).collect();
    let triad = report.ceilings.triad.rate;
    for roof in roofs.iter().filter(|roof| !roof.sloped) {
        intensities.push(roof.rate / triad);
        rates.push(roof.rate);
    }
    let x = Axis::around(&intensities, (0.2, 0.05), LEFT, LEFT + PLOT_WIDTH);
    // Below the lowest point, room for the numbers of the points above it.
    let y = Axis::around(&rates, (0.5, 0.05), lower, upper);

    grid(canvas, x, y);
    for (roof, colour) in roofs.iter().zip(colour::ROOFS) {
        draw_roof(canvas, roof, colour, x, y);
    }
    let mut points: Vec<Point> = found
        .iter()
        .map(|&(index, intensity, rate)| Point {
            index,
            x: x.at(intensity),
            y: y.at(rate),
        })
        .collect();
    // The lowest slope: labels stand below it, so that no roof runs through them.
    let slope = roofs
        .iter()
        .filter(|roof| roof.sloped)
        .map(|roof| roof.rate);
    let slope = slope.fold(f64::INFINITY, f64::min);
    let under = |pixel: f64| y.at(x.value(pixel) * slope);
    draw_points(canvas, report, &mut points, under, lower);
    legend(canvas, report, &roofs, upper);
    lower + 2.0 * LINE + MARGIN + LINE
}

fn roofs(report: &Report) -> Vec<Roof> {
    let ceilings = &report.ceilings;
    let mut roofs = Vec::new();
    for (name, rate) in [
        ("copy", &ceilings.copy),
        ("triad", &ceilings.triad),
        ("write", &ceilings.write),
    ] {
        roofs.push(Roof {
            name: format!("{name} {:.0} GB/s", rate.rate),
            rate: rate.rate,
            sloped: true,
        });
    }
    for (name, rate) in [("exp2", &ceilings.exp2), ("fma", &ceilings.fma)] {
        if let Some(rate) = rate {
            roofs.push(Roof {
                name: format!("{name} {:.0} Gop/s", rate.rate),
                rate: rate.rate,
                sloped: false,
            });
        }
    }
    roofs
}

fn grid(canvas: &mut Canvas, x: Axis, y: Axis) {
    for decade in x.from..=x.to {
        let at = x.at(10f64.powi(decade));
        canvas.line((at, y.start), (at, y.end), colour::FAINT, 1.0);
        canvas.text(Text::new(at, y.start + LINE, &decade_name(decade)).anchor(Anchor::Middle));
    }
    for decade in y.from..=y.to {
        let at = y.at(10f64.powi(decade));
        canvas.line((x.start, at), (x.end, at), colour::FAINT, 1.0);
        canvas.text(
            Text::new(x.start - 8.0, at + SMALL / 3.0, &decade_name(decade)).anchor(Anchor::End),
        );
    }
    canvas.line((x.start, y.start), (x.end, y.start), colour::AXIS, 1.0);
    canvas.line((x.start, y.start), (x.start, y.end), colour::AXIS, 1.0);
    canvas.text(
        Text::new(
            (x.start + x.end) / 2.0,
            y.start + 2.0 * LINE,
            "arithmetic intensity, op/byte",
        )
        .anchor(Anchor::Middle),
    );
    canvas.text(Text::new(x.start - 8.0, y.end - 14.0, "Gop/s").anchor(Anchor::End));
}

fn decade_name(decade: i32) -> String {
    match decade {
        6.. => format!("10^{decade}"),
        3..=5 => format!("{}k", 10i32.pow(decade as u32 - 3)),
        0..=2 => 10i32.pow(decade as u32).to_string(),
        -4..=-1 => format!("{:.*}", -decade as usize, 10f64.powi(decade)),
        _ => format!("10^{decade}"),
    }
}

/// The part of the roof's line that lies in the picture.
fn draw_roof(canvas: &mut Canvas, roof: &Roof, colour: &str, x: Axis, y: Axis) {
    if !roof.sloped {
        let at = y.at(roof.rate);
        canvas.line((x.start, at), (x.end, at), colour, 1.5);
        return;
    }
    let from = x.low().max(y.low() / roof.rate);
    let to = x.high().min(y.high() / roof.rate);
    if from < to {
        canvas.line(
            (x.at(from), y.at(from * roof.rate)),
            (x.at(to), y.at(to * roof.rate)),
            colour,
            1.5,
        );
    }
}

/// The points, and their numbers in columns beside each cluster, joined to them by lines.
/// Labels stand between `under` (a function of x) and `lower`.
fn draw_points(
    canvas: &mut Canvas,
    report: &Report,
    points: &mut [Point],
    under: impl Fn(f64) -> f64,
    lower: f64,
) {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let label_width = width("000", SMALL);
    let mut free = f64::NEG_INFINITY;
    let mut rest = &mut points[..];
    while let Some(first) = rest.first() {
        let near = first.x + CLUSTER;
        let size = rest.partition_point(|point| point.x <= near);
        let (mut cluster, others) = rest.split_at_mut(size);
        rest = others;
        cluster.sort_by(|a, b| a.y.total_cmp(&b.y));
        let right = cluster
            .iter()
            .map(|p| p.x)
            .fold(f64::NEG_INFINITY, f64::max);
        let mut column_x = (right + REACH).max(free);
        while !cluster.is_empty() {
            let upper = under(column_x) + SPACING;
            let room = ((lower - upper) / SPACING).max(1.0) as usize;
            let (column, more) = cluster.split_at_mut(room.min(cluster.len()));
            cluster = more;
            let wanted: Vec<f64> = column.iter().map(|point| point.y).collect();
            for (point, at) in column
                .iter()
                .zip(spread(&wanted, upper, lower - SPACING / 2.0))
            {
                let colour = row_colour(&report.rows[point.index]);
                canvas.line((point.x, point.y), (column_x - 3.0, at), colour::AXIS, 0.6);
                canvas.text(
                    Text::new(column_x, at + SMALL / 3.0, &number(point.index)).colour(colour),
                );
            }
            column_x += label_width;
        }
        free = column_x;
    }
    for point in points.iter() {
        let colour = row_colour(&report.rows[point.index]);
        canvas.circle((point.x, point.y), RADIUS, colour);
    }
}

/// Places for labels that want ascending positions: at least [`SPACING`] apart, inside
/// `low..high` as far as there is room, near where they want to be.
fn spread(wanted: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    // Runs of labels that touch, each centred on the mean of what its labels want.
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for &want in wanted {
        runs.push((1, want));
        while let [.., (n, a), (m, b)] = runs[..] {
            if b - a >= SPACING * (n + m) as f64 / 2.0 {
                break;
            }
            runs.truncate(runs.len() - 2);
            runs.push((n + m, (a * n as f64 + b * m as f64) / (n + m) as f64));
        }
    }
    for (n, centre) in runs {
        let first = centre - SPACING * (n - 1) as f64 / 2.0;
        places.extend((0..n).map(|i| first + SPACING * i as f64));
    }
    // Push back what sticks out, from the end and then from the start.
    let mut limit = high;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - SPACING;
    }
    let mut limit = low;
    for place in &mut places {
        *place = place.max(limit);
        limit = *place + SPACING;
    }
    places
}

fn legend(canvas: &mut Canvas, report: &Report, roofs: &[Roof], top: f64) {
    let mut y = top + SMALL;
    for (roof, colour) in roofs.iter().zip(colour::ROOFS) {
        let middle = y - SMALL / 3.0;
        canvas.line((LEGEND, middle), (LEGEND + 24.0, middle), colour, 2.0);
        canvas.text(Text::new(LEGEND + 34.0, y, &roof.name));
        y += LINE;
    }
    y += LINE;
    let characters = ((WIDTH - MARGIN - LEGEND - 34.0) / width("0", SMALL)) as usize;
    for (index, row) in report.rows.iter().enumerate() {
        canvas.text(
            Text::new(LEGEND + 26.0, y, &number(index))
                .anchor(Anchor::End)
                .colour(row_colour(row)),
        );
        canvas.text(Text::new(LEGEND + 34.0, y, &cut(&row.label(), characters)));
        y += LINE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance() {
        let places = spread(&[10.0, 10.0, 10.0, 200.0], 0.0, 300.0);
        assert!(places.windows(2).all(|p| p[1] - p[0] >= SPACING - 1e-9));
        assert!(places[0] >= 0.0 && places[3] == 200.0);
        let places = spread(&[299.0, 299.5, 300.0], 0.0, 300.0);
        assert!(places.windows(2).all(|p| p[1] - p[0] >= SPACING - 1e-9));
        assert!(places[2] <= 300.0);
        assert_eq!(spread(&[], 0.0, 1.0), [] as [f64; 0]);
    }

    #[test]
    fn axes() {
        let axis = Axis::around(&[0.5, 30.0], (0.0, 0.0), 0.0, 300.0);
        assert_eq!((axis.from, axis.to), (-1, 2));
        assert_eq!(axis.at(1.0), 100.0);
        assert_eq!(axis.at(1e9), 300.0);
        let axis = Axis::around(&[], (0.1, 0.1), 0.0, 1.0);
        assert!(axis.from < axis.to);
        assert_eq!(
            [-2, -1, 0, 2, 3, 5, 7].map(decade_name),
            ["0.01", "0.1", "1", "100", "1k", "100k", "10^7"]
        );
    }
}
