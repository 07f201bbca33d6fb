//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric in the exposition format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A text under construction.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// Begins a family of samples. Names are words of letters and underscores, help is one line.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> &mut Exposition {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self
    }

    /// Adds a sample of the present family.
    pub(super) fn sample(
        &mut self,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> &mut Exposition {
        self.part("", labels, value)
    }

    /// Adds a histogram: limits and the values up to each, then the number and the sum of all.
    pub(super) fn histogram(
        &mut self,
        label: (&str, &str),
        up_to: &[(f64, u64)],
        (count, sum): (u64, f64),
    ) {
        for (limit, values) in up_to {
            self.part("_bucket", &[label, ("le", &limit.to_string())], values);
        }
        self.part("_bucket", &[label, ("le", "+Inf")], count);
        self.part("_sum", &[label], sum);
        self.part("_count", &[label], count);
    }

    fn part(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> &mut Exposition {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
        self
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative_and_end_with_all() {
        let mut exposition = Exposition::default();
        exposition.family("a_seconds", Kind::Histogram, "Help.");
        exposition.histogram(("worker", "0"), &[(0.001, 2), (1.0, 3)], (4, 9.5));
        let want = "# HELP a_seconds Help.\n# TYPE a_seconds histogram\n\
            a_seconds_bucket{worker=\"0\",le=\"0.001\"} 2\n\
            a_seconds_bucket{worker=\"0\",le=\"1\"} 3\n\
            a_seconds_bucket{worker=\"0\",le=\"+Inf\"} 4\n\
            a_seconds_sum{worker=\"0\"} 9.5\na_seconds_count{worker=\"0\"} 4\n";
        assert_eq!(exposition.finish(), want);
    }

    #[test]
    fn labels_are_escaped() {
        let mut exposition = Exposition::default();
        exposition
            .family("a_total", Kind::Counter, "Help.")
            .sample(&[("x", "a\"\\\n"), ("y", "1")], 7);
        exposition.sample(&[], 0.5);
        let want = "# HELP a_total Help.\n# TYPE a_total counter\n\
            a_total{x=\"a\\\"\\\\\\n\",y=\"1\"} 7\na_total 0.5\n";
        assert_eq!(exposition.finish(), want);
    }
}
