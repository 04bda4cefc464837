//! A canvas of SVG elements; in tests it knows where its texts stand.

use super::{SMALL, colour};
use std::fmt::Write;

/// Width of a character of a monospaced font, as a share of its size. Fonts in use have
/// 0.60 (DejaVu Sans Mono, Liberation Mono, Courier); a little more is kept free.
const ADVANCE: f64 = 0.62;
/// Height above and below the base line, as shares of the size.
#[cfg(test)]
const ABOVE: f64 = 0.80;
#[cfg(test)]
const BELOW: f64 = 0.24;

/// Which point of a text its position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text; its position is on the base line.
#[derive(Clone, Debug)]
pub struct Text {
    x: f64,
    y: f64,
    text: String,
    size: f64,
    anchor: Anchor,
    colour: &'static str,
    bold: bool,
}

impl Text {
    pub fn new(x: f64, y: f64, text: &str) -> Self {
        Self {
            x,
            y,
            text: text.to_owned(),
            size: SMALL,
            anchor: Anchor::Start,
            colour: colour::TEXT,
            bold: false,
        }
    }

    pub fn size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub fn colour(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// The rectangle it covers.
    #[cfg(test)]
    fn extent(&self) -> Extent {
        let width = width(&self.text, self.size);
        let left = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2.0,
            Anchor::End => self.x - width,
        };
        Extent {
            left,
            right: left + width,
            top: self.y - ABOVE * self.size,
            bottom: self.y + BELOW * self.size,
        }
    }
}

/// Width of a text in pixels.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * ADVANCE
}

#[cfg(test)]
#[derive(Clone, Copy, Debug)]
struct Extent {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

#[cfg(test)]
impl Extent {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// SVG elements, drawn in the order they are added.
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
    /// Where the texts stand: for the tests, which hold them against each other.
    #[cfg(test)]
    texts: Vec<(String, Extent)>,
}

impl Canvas {
    pub fn new(width: f64) -> Self {
        Self {
            width,
            height: 0.0,
            body: String::new(),
            #[cfg(test)]
            texts: Vec::new(),
        }
    }

    pub fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    pub fn text(&mut self, text: Text) {
        let anchor = match text.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if text.bold {
            r#" font-weight="bold""#
        } else {
            ""
        };
        self.add(format_args!(
            r#"<text x="{:.1}" y="{:.1}" font-size="{}" text-anchor="{anchor}" fill="{}"{weight}>{}</text>"#,
            text.x,
            text.y,
            text.size,
            text.colour,
            escape(&text.text)
        ));
        #[cfg(test)]
        self.texts.push((text.text.clone(), text.extent()));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.add(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    pub fn rectangle(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        self.add(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{fill}"/>"#,
            at.0, at.1, size.0, size.1
        ));
    }

    pub fn circle(&mut self, at: (f64, f64), radius: f64, fill: &str) {
        self.add(format_args!(
            r##"<circle cx="{:.1}" cy="{:.1}" r="{radius}" fill="{fill}" stroke="#ffffff" stroke-width="1"/>"##,
            at.0, at.1
        ));
    }

    pub fn diamond(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.add(format_args!(
            r##"<path d="M {:.1} {y:.1} L {x:.1} {:.1} L {:.1} {y:.1} L {x:.1} {:.1} Z" fill="{fill}" stroke="#ffffff" stroke-width="1"/>"##,
            x - radius,
            y - radius,
            x + radius,
            y + radius
        ));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// Pairs of texts that cover each other.
    #[cfg(test)]
    pub fn overlaps(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (i, (one, at)) in self.texts.iter().enumerate() {
            for (other, there) in &self.texts[i + 1..] {
                if at.meets(there) {
                    pairs.push((one.clone(), other.clone()));
                }
            }
        }
        pairs
    }

    /// Texts that leave the picture.
    #[cfg(test)]
    pub fn outside(&self) -> Vec<String> {
        let inside = |e: &Extent| {
            e.left >= 0.0 && e.top >= 0.0 && e.right <= self.width && e.bottom <= self.height
        };
        self.texts
            .iter()
            .filter(|(_, extent)| !inside(extent))
            .map(|(text, _)| text.clone())
            .collect()
    }

    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" xml:space=\"preserve\" \
             font-family=\"DejaVu Sans Mono, Liberation Mono, Menlo, Consolas, monospace\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_seen() {
        let mut canvas = Canvas::new(100.0);
        canvas.set_height(100.0);
        canvas.text(Text::new(10.0, 20.0, "one"));
        canvas.text(Text::new(10.0, 40.0, "two"));
        assert!(canvas.overlaps().is_empty() && canvas.outside().is_empty());
        canvas.text(Text::new(60.0, 44.0, "three").anchor(Anchor::End));
        assert_eq!(canvas.overlaps(), [("two".into(), "three".into())]);
        canvas.text(Text::new(90.0, 80.0, "leaves"));
        assert_eq!(canvas.outside(), ["leaves"]);
    }
}
