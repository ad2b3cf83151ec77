//! The report as one HTML file: tables and plots, and nothing that is loaded from elsewhere.

use std::fmt::{Display, Write};

use super::all::Collection;
use super::{Plot, Report, Row};

/// Colours follow the reader's: light or dark.
const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{border:1px solid #8886;padding:.25rem .5rem;text-align:left;vertical-align:top}
th{position:sticky;top:0;background:Canvas}
td.setting{font-size:85%;background:#8881}
td.yes{background:#0a02}
td.no{background:#d002}
small{opacity:.75}
svg{background:#fff;max-width:100%;height:auto;margin:1rem 0}
";

/// Words of a text, with what HTML would take for its own written out.
fn escaped(text: &impl Display) -> String {
    let mut out = String::new();
    for letter in text.to_string().chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(letter),
        }
    }
    out
}

/// The whole file.
pub fn page(collection: &Collection) -> String {
    let mut out = String::new();
    // A string takes all that is written.
    let _ = write_page(&mut out, collection);
    out
}

fn write_page(out: &mut String, collection: &Collection) -> std::fmt::Result {
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>terrace \
         reproduce</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Papers' figures and ours</h1>"
    )?;
    head(out, collection)?;
    summary(out, &collection.reports)?;
    collection.reports.iter().try_for_each(|report| study(out, report))?;
    writeln!(out, "</body>\n</html>")
}

fn head(out: &mut String, collection: &Collection) -> std::fmt::Result {
    let here = &collection.circumstances;
    let settings = &collection.options.settings;
    let only = match collection.options.only.as_slice() {
        [] => "all".to_owned(),
        only => only.join(", "),
    };
    let told = |text: &str| if text.is_empty() { "not told".to_owned() } else { escaped(&text) };
    writeln!(out, "<table>")?;
    for (name, value) in [
        ("version", format!("terrace {}", here.version)),
        ("processor", format!("{}, {} cores", told(&here.processor), here.cores)),
        ("memory", format!("{:.1} GiB", here.memory_bytes as f64 / (1u64 << 30) as f64)),
        ("kernel", told(&here.kernel)),
        (
            "options",
            format!(
                "scale {}, {} runs from seed {}, simulations on {} threads, parts: {}",
                settings.scale,
                settings.runs,
                settings.seed,
                settings.threads,
                escaped(&only)
            ),
        ),
    ] {
        writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>")?;
    }
    writeln!(
        out,
        "</table>\n<p>Deterministic: counted in the engine, the same on any machine. Simulated: by the trace \
         simulator, the same anywhere. \
         Timed: on this machine. Emulated: over memory to which a device's latency and bandwidth are added. What was \
         not measured has no \
         figure and says why. ± is half of a 95% interval.</p>"
    )
}

fn summary(out: &mut String, reports: &[Report]) -> std::fmt::Result {
    writeln!(
        out,
        "<table>\n<tr><th>study</th><th>rows</th><th>hold</th><th>do not</th><th>not judged</th><th>not \
         measured</th><th>seconds</th></tr>"
    )?;
    for report in reports {
        let count = report.count();
        writeln!(
            out,
            "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{:.0}</td></tr>",
            report.rows.len(),
            count.hold,
            count.do_not,
            count.not_judged,
            count.not_measured,
            report.total_seconds(),
            name = report.study,
        )?;
    }
    writeln!(out, "</table>")
}

fn study(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "<h2 id=\"{name}\">{name}</h2>\n<p>{}</p>\n<table>\n\
         <tr><th></th><th>what</th><th>paper</th><th>ours</th><th>how</th><th>device</th>\
         <th>holds</th></tr>",
        escaped(&report.about),
        name = report.study,
    )?;
    for rows in report.rows.chunk_by(|a, b| (a.id, &a.setting) == (b.id, &b.setting)) {
        if let Some(Row { id, setting, .. }) = rows.first().filter(|row| !row.setting.is_empty()) {
            writeln!(
                out,
                "<tr><td>{id}</td><td class=\"setting\" colspan=\"6\">{}</td></tr>",
                escaped(setting)
            )?;
        }
        rows.iter().try_for_each(|line| row(out, line))?;
    }
    writeln!(out, "</table>")?;
    report.plots.iter().try_for_each(|plot| figure(out, plot))
}

fn row(out: &mut String, row: &Row) -> std::fmt::Result {
    let holds = row.holds.name();
    let reason =
        row.holds.reason().map_or_else(String::new, |reason| format!(" <small>{}</small>", escaped(&reason)));
    writeln!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td \
         class=\"{}\">{holds}{reason}</td></tr>",
        row.id,
        escaped(&row.what),
        escaped(&row.paper),
        escaped(&row.ours),
        row.kind.how(),
        if row.kind.is_emulated() { "emulated" } else { "" },
        if row.holds.reason().is_some() { "" } else { holds },
    )
}

fn figure(out: &mut String, plot: &Plot) -> std::fmt::Result {
    match plot.svg() {
        // Within HTML no name of its language is needed, which looks like an address.
        Ok(svg) => writeln!(out, "{}", svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")),
        Err(error) => writeln!(out, "<p>{} can't be drawn: {}</p>", escaped(&plot.title), escaped(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Holds, Kind, Options, Settings};
    use super::*;

    #[test]
    fn a_page_has_tables_and_plots_and_loads_nothing() {
        let settings = Settings { scale: 1.0, runs: 1, seed: 1, threads: 1 };
        let row = |holds| Row {
            id: "X1",
            what: "a < b & c".into(),
            setting: "a store".into(),
            paper: 2.0.into(),
            ours: 1.5.into(),
            kind: Kind::Emulated,
            holds,
        };
        let plot = Plot {
            file: "x".into(),
            title: "A plot".into(),
            y: "y".into(),
            shape: super::super::Shape::Bars {
                parts: vec!["part".into()],
                groups: vec![("group".into(), vec![1.0])],
            },
        };
        let report = Report {
            rows: vec![row(Holds::Judged(false)), row(Holds::NotJudged("why".into()))],
            plots: vec![plot],
            study: "x",
            about: "A paper",
            settings: settings.clone(),
            seconds: vec![("X1", 1.0)],
        };
        let page = page(&Collection::of(report, &Options { settings, only: Vec::new(), plots: None }));
        for words in [
            "<td>a &lt; b &amp; c</td><td>2.00</td><td>1.50</td><td>timed</td><td>emulated</td><td \
             class=\"no\">no</td>",
            "<td class=\"\">n/a <small>why</small></td>",
            "colspan=\"6\">a store</td>",
            "<h2 id=\"x\">x</h2>",
            "<svg",
            "A plot",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        for loads in ["http", "src=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }
}
