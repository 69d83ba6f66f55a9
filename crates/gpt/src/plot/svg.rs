//! Curves as one SVG picture: losses above, learning rate and gradient norm below.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Curves, Points, is_drawable, range};

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 800);

/// Height of the upper chart, that of the losses.
const UPPER: u32 = 480;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What the library that draws says when it cannot; it writes to memory, so nothing of a caller's can make it.
type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// One curve of a chart.
struct Curve {
    points: Points,
    colour: RGBColor,
    /// How much it covers, from 0 to 1, and its width in pixels.
    stroke: (f64, u32),
    /// Its name in the legend, if it has one.
    name: Option<String>,
}

/// The picture of some runs. Training losses are thin and pale, validation losses thick.
///
/// # Errors
///
/// What the library that draws says, in words.
pub fn picture(runs: &[Curves]) -> Result<String, String> {
    let mut text = String::new();
    draw(&mut text, runs).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw<'a>(text: &'a mut String, runs: &[Curves]) -> Result<(), Failed<'a>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(UPPER);
    let (left, right) = lower.split_horizontally(SIZE.0 / 2);
    chart(&upper, "loss, nats per token", losses(runs), true)?;
    chart(
        &left,
        "learning rate",
        thin(runs, Curves::learning_rate),
        false,
    )?;
    chart(
        &right,
        "gradient norm",
        thin(runs, Curves::gradient_norm),
        false,
    )?;
    area.present()
}

fn losses(runs: &[Curves]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (run, &colour) in runs.iter().zip(COLOURS.iter().cycle()) {
        curves.push(Curve {
            points: run.training(),
            colour,
            stroke: (0.45, 1),
            name: Some(format!("{}: training", run.name)),
        });
        curves.push(Curve {
            points: run.validation(),
            colour,
            stroke: (1.0, 3),
            name: Some(format!("{}: validation", run.name)),
        });
    }
    curves
}

fn thin(runs: &[Curves], of: fn(&Curves) -> Points) -> Vec<Curve> {
    let curve = |(run, &colour): (&Curves, &RGBColor)| Curve {
        points: of(run),
        colour,
        stroke: (0.9, 1),
        name: None,
    };
    runs.iter().zip(COLOURS.iter().cycle()).map(curve).collect()
}

fn chart<'a>(
    area: &Area<'a>,
    title: &str,
    curves: Vec<Curve>,
    legend: bool,
) -> Result<(), Failed<'a>> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let steps = range(all().map(|point| point.0)).unwrap_or((0.0, 1.0));
    let values = range(all().map(|point| point.1)).unwrap_or((0.0, 1.0));
    let margin = (values.1 - values.0) * 0.03;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(steps.0..steps.1, values.0 - margin..values.1 + margin)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .x_label_formatter(&|step| format!("{step:.0}"))
        .y_label_formatter(&|value| label(*value, values.1 - values.0))
        // Finer lines than those with numbers would be hardly seen, and most of the file.
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for curve in curves {
        let (cover, width) = curve.stroke;
        let style = curve.colour.mix(cover).stroke_width(width);
        let points = curve.points.into_iter();
        let finite = points.filter(|point| is_drawable(point.1));
        let drawn = chart.draw_series(LineSeries::new(finite, style))?;
        if let Some(name) = curve.name {
            drawn
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
    }
    if legend {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}

/// A number at an axis of some length: a small or large one with its power of ten. The numbers are sums of steps, so that 0 is seldom met exactly.
fn label(value: f64, length: f64) -> String {
    match value.abs() {
        size if size < length * 1e-9 => "0".into(),
        size if (0.01..1e4).contains(&size) => format!("{value:.2}"),
        0.0 => "0".into(),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::falling;

    #[test]
    fn a_picture_has_two_curves_of_losses_for_each_run() {
        for runs in [1, 2, 9] {
            let all: Vec<Curves> = (0..runs)
                .map(|i| falling(&format!("<run {i}>"), 600))
                .collect();
            let text = picture(&all).unwrap();
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
            // Two curves of losses, learning rate and norm of each run; the legend has a line for each loss.
            let long = text
                .lines()
                .filter(|l| l.starts_with("<polyline") && l.len() > 2000);
            assert!(long.count() >= 3 * runs);
            assert!(
                text.contains("&lt;run 0&gt;: validation"),
                "names are escaped"
            );
            assert!(!text.contains("NaN") && !text.contains("inf"));
        }
    }

    #[test]
    fn nothing_one_step_and_ruined_numbers_are_no_failure() {
        let mut ruined = falling("ruined", 20);
        ruined.lines[3].loss = f64::NAN;
        ruined.lines[4].grad_norm = f64::INFINITY;
        ruined.lines[5].loss = f64::MAX;
        ruined.lines[6].loss = f64::MIN;
        for run in [falling("none", 0), falling("one", 1), ruined] {
            let text = picture(&[run]).unwrap();
            assert!(text.contains("loss, nats per token"));
            assert!(!text.contains("NaN") && !text.contains("inf"));
        }
    }

    #[test]
    fn axes_are_short() {
        let labels = [0.0, 1e-3, 4.1744, 25_000.0].map(|value| label(value, 1.0));
        assert_eq!(labels, ["0", "1.0e-3", "4.17", "2.5e4"]);
        assert_eq!([label(-1.4e-20, 1e-3), label(0.0, 0.0)], ["0", "0"]);
    }

    #[test]
    fn a_picture_is_a_small_file() {
        let text = picture(&[falling("run", 2000)]).unwrap();
        assert!(text.len() < 50_000, "{} bytes", text.len());
    }
}
