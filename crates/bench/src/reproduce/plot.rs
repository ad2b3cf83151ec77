//! Plots as SVG files. Text is left to whoever shows them: no font is looked up here.

use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::stats::Interval;

const SIZE: (u32, u32) = (960, 600);
const FONT: &str = "sans-serif";

/// Told apart also by those who see few colours (Okabe and Ito's).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(148, 148, 148),
];

fn colour(i: usize) -> RGBColor {
    COLOURS[i % COLOURS.len()]
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Names the file, without ending.
    pub file: String,
    /// Stands above.
    pub title: String,
    /// What the height is.
    pub y: String,
    /// What is drawn.
    pub shape: Shape,
}

/// The kinds of figures.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A curve for each series, over a logarithmic axis, with the intervals of its points.
    Lines {
        /// What the points lie over.
        x: String,
        /// Names and points.
        series: Vec<(String, Vec<(f64, Interval)>)>,
    },
    /// A bar for each group, made of parts that stand on each other.
    Bars {
        /// Names of the parts, lowest first.
        parts: Vec<String>,
        /// Names of the groups and how high each part is.
        groups: Vec<(String, Vec<f64>)>,
    },
}

impl Plot {
    /// Writes `DIR/FILE.svg`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join(format!("{}.svg", self.file));
        let svg = self.svg().with_context(|| format!("can't draw {}", path.display()))?;
        std::fs::write(&path, svg).with_context(|| format!("can't write {}", path.display()))
    }

    pub(super) fn svg(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            match &self.shape {
                Shape::Lines { x, series } => self.lines(&area, x, series)?,
                Shape::Bars { parts, groups } => self.bars(&area, parts, groups)?,
            }
            area.present()?;
        }
        Ok(text)
    }

    fn lines(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        x: &str,
        series: &[(String, Vec<(f64, Interval)>)],
    ) -> anyhow::Result<()> {
        let points = || series.iter().flat_map(|(_, points)| points);
        let xs = points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
        let ys =
            points().fold((f64::MAX, f64::MIN), |(low, high), (_, y)| (low.min(y.low()), high.max(y.high())));
        anyhow::ensure!(xs.0 > 0.0 && xs.0 < xs.1 && ys.0.is_finite(), "nothing to draw");
        let margin = (ys.1 - ys.0).max(1e-9) * 0.05;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 22))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d((xs.0..xs.1).log_scale(), ys.0 - margin..ys.1 + margin)?;
        chart.configure_mesh().x_desc(x).y_desc(&self.y).light_line_style(WHITE).draw()?;
        for (i, (name, points)) in series.iter().enumerate() {
            let line = colour(i).stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().map(|(x, y)| (*x, y.mean)), line).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], line));
            chart.draw_series(
                points
                    .iter()
                    .filter(|(_, y)| y.half.is_some())
                    .map(|(x, y)| PathElement::new(vec![(*x, y.low()), (*x, y.high())], line)),
            )?;
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)
    }

    fn bars(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        parts: &[String],
        groups: &[(String, Vec<f64>)],
    ) -> anyhow::Result<()> {
        let highest = groups.iter().map(|(_, heights)| heights.iter().sum::<f64>()).fold(0.0, f64::max);
        anyhow::ensure!(highest > 0.0 && highest.is_finite(), "nothing to draw");
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 22))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..highest * 1.2)?;
        // Names stand in the middle of their bars, where an axis of numbers has no marks: they are drawn by hand.
        chart.configure_mesh().disable_x_mesh().x_labels(0).y_desc(&self.y).light_line_style(WHITE).draw()?;
        let wide = (SIZE.0 as i32 - 90) / groups.len().max(1) as i32;
        for (i, part) in parts.iter().enumerate() {
            let fill = colour(i).filled();
            let bars = groups.iter().enumerate().map(|(at, (_, heights))| {
                let below: f64 = heights.iter().take(i).sum();
                let height = heights.get(i).copied().unwrap_or(0.0);
                Rectangle::new([(at as f64 + 0.15, below), (at as f64 + 0.85, below + height)], fill)
            });
            chart
                .draw_series(bars)?
                .label(part)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], fill));
        }
        for (at, (name, heights)) in groups.iter().enumerate() {
            let mut below = 0.0;
            for height in heights {
                let label = format!("{height:.1}");
                chart.draw_series([Text::new(
                    label,
                    (at as f64 + 0.4, below + height / 2.0),
                    (FONT, 15).into_font().color(&WHITE),
                )])?;
                below += height;
            }
            for (line, words) in name.split('\n').enumerate() {
                let left = 72 + at as i32 * wide + wide / 8;
                area.draw(&Text::new(
                    words.to_owned(),
                    (left, SIZE.1 as i32 - 52 + line as i32 * 16),
                    (FONT, 15),
                ))?;
            }
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    }
}

fn legend<'a, 'b, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, C>,
    position: SeriesLabelPosition,
) -> anyhow::Result<()>
where
    'b: 'a,
{
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font((FONT, 14))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(shape: Shape) -> Plot {
        Plot { file: "f".into(), title: "Hits & misses".into(), y: "%".into(), shape }
    }

    #[test]
    fn a_plot_shows_what_it_was_given() {
        let point = |x, runs: &[f64]| (x, Interval::of(runs));
        let series = vec![
            ("first".to_owned(), vec![point(1.0, &[3.0, 4.0]), point(50.0, &[5.0])]),
            ("second".to_owned(), vec![point(1.0, &[1.0]), point(50.0, &[9.0])]),
        ];
        let svg = plot(Shape::Lines { x: "size".into(), series }).svg().unwrap();
        for word in ["<svg", "</svg>", "Hits &amp; misses", "first", "second", "size", "polyline"] {
            assert!(svg.contains(word), "{word} is not in {svg}");
        }
        let groups = vec![("one\nof two".to_owned(), vec![10.0, 20.0]), ("two".to_owned(), vec![5.0, 6.5])];
        let svg = plot(Shape::Bars { parts: vec!["low".into(), "high".into()], groups }).svg().unwrap();
        for word in ["low", "high", "of two", "20.0", "6.5"] {
            assert!(svg.contains(word), "{word} is not in {svg}");
        }
    }

    #[test]
    fn nothing_is_not_drawn() {
        assert!(plot(Shape::Lines { x: String::new(), series: vec![] }).svg().is_err());
        assert!(plot(Shape::Bars { parts: vec![], groups: vec![] }).svg().is_err());
    }
}
