//! Many comparisons at once.

/// Holm's adjustment: keeps the chance of any false rejection at the level, whatever depends on
/// whatever.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let count = p_values.len();
    let mut adjusted = vec![0.0; count];
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p_values[index] * (count - rank) as f64);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

/// Benjamini and Hochberg's adjustment: bounds the expected share of false rejections.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let count = p_values.len();
    let mut adjusted = vec![0.0; count];
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(p_values[index] * count as f64 / (rank + 1) as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() < 1e-9, "{actual:?} for {expected:?}");
        }
    }

    #[test]
    fn adjustments_match_a_worked_example() {
        let p_values = [0.01, 0.04, 0.03, 0.005];
        assert_near(&holm(&p_values), &[0.03, 0.06, 0.06, 0.02]);
        assert_near(&benjamini_hochberg(&p_values), &[0.02, 0.04, 0.04, 0.02]);
    }

    #[test]
    fn adjusted_p_values_are_probabilities() {
        assert_near(&holm(&[0.9, 0.8]), &[1.0, 1.0]);
        assert_near(&benjamini_hochberg(&[0.9, 0.8]), &[0.9, 0.9]);
    }

    #[test]
    fn benjamini_hochberg_rejects_the_four_of_the_1995_paper() {
        // Table of the original paper: 15 p-values, four rejected at 0.05.
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let rejected = |adjusted: Vec<f64>| adjusted.iter().filter(|&&p| p <= 0.05).count();
        assert_eq!(rejected(benjamini_hochberg(&p_values)), 4);
        assert_eq!(rejected(holm(&p_values)), 3);
    }
}
