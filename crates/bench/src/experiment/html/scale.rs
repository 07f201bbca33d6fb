//! Position of a value in a drawing, and the round values that its axis names.

/// Share of a drawing that stays free at both ends.
const MARGIN: f64 = 0.05;

/// A linear or logarithmic scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Covers the values, with a margin. What is never negative gets no negative axis.
    pub fn linear(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.filter(|value| value.is_finite())).unwrap_or((0.0, 1.0));
        let margin = ((high - low) * MARGIN).max(high.abs() * 0.002).max(1e-9);
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Self { low: (low - margin).max(floor), high: high + margin, logarithmic: false }
    }

    /// Covers the values above 0, with a margin.
    pub fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::ln);
        let (low, high) = ends(values).unwrap_or((0.0, 1.0));
        let margin = ((high - low) * MARGIN).max(0.002);
        // Far from where exponents end.
        let (low, high) = ((low - margin).exp().max(1e-300), (high + margin).exp().min(1e300));
        Self { low, high, logarithmic: true }
    }

    /// 0 at the low end, 1 at the high one; values beyond stand at the ends.
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.logarithmic {
            {
                let low = self.low.ln();
                (value.max(f64::MIN_POSITIVE).ln() - low) / (self.high.ln() - low)
            }
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// True if the scale reaches the value.
    pub fn covers(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// At most six round values with their names.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if self.logarithmic && self.high / self.low > 8.0 {
            for digits in [&[1.0, 2.0, 5.0][..], &[1.0]] {
                let ticks = self.decade_ticks(digits);
                if (2..=6).contains(&ticks.len()) {
                    return ticks;
                }
            }
        }
        let step = round_step((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last)
            .map(|number| number as f64 * step)
            .map(|value| (value, name(value, step)))
            .collect()
    }

    fn decade_ticks(&self, digits: &[f64]) -> Vec<(f64, String)> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        decades
            .flat_map(|decade| digits.iter().map(move |digit| (digit * 10f64.powi(decade), decade)))
            .filter(|&(value, _)| self.covers(value))
            .map(|(value, decade)| (value, name(value, 10f64.powi(decade))))
            .collect()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powi(step.log10().floor() as i32);
    [1.0, 2.0, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|round| *round >= step * 0.999)
        .unwrap_or(10.0 * power)
}

/// As many digits as tell neighbours `step` apart.
fn name(value: f64, step: f64) -> String {
    let digits = |step: f64| (-step.log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize;
    match value.abs() {
        1e12.. => format!("{value:.1e}"),
        1e6.. => format!("{:.*}M", digits(step / 1e6), value / 1e6),
        1e4.. => format!("{:.*}k", digits(step / 1e3), value / 1e3),
        _ => format!("{value:.*}", digits(step)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn axes_name_round_values_within_the_scale() {
        assert_eq!(
            names(Scale::linear([61_000.0, 93_000.0].into_iter())),
            ["60k", "70k", "80k", "90k"]
        );
        assert_eq!(names(Scale::linear([0.0, 1.0].into_iter())), ["0.0", "0.5", "1.0"]);
        assert_eq!(
            names(Scale::linear([0.0123, 0.0189].into_iter())),
            ["0.012", "0.014", "0.016", "0.018"]
        );
        assert_eq!(names(Scale::logarithmic([0.03, 20.0].into_iter())), ["0.1", "1", "10"]);
        assert_eq!(names(Scale::logarithmic([0.95, 1.07].into_iter())), ["0.95", "1.00", "1.05"]);
    }

    #[test]
    fn any_values_give_a_scale_with_finite_places() {
        for values in [
            vec![],
            vec![0.0],
            vec![5.0; 3],
            vec![f64::NAN, f64::INFINITY],
            vec![-3.0, 1e300],
            vec![1e-300, 1e-9],
            vec![f64::MIN_POSITIVE / 1e10, f64::MAX],
        ] {
            for scale in
                [Scale::linear(values.iter().copied()), Scale::logarithmic(values.iter().copied())]
            {
                for value in
                    values.iter().copied().chain([0.0, 1.0, -1.0]).filter(|value| value.is_finite())
                {
                    assert!((0.0..=1.0).contains(&scale.place(value)), "{scale:?} {value}");
                }
                assert!(scale.ticks().len() <= 20, "{scale:?}");
            }
        }
    }
}
