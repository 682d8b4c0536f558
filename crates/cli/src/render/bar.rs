//! Bars of shares, and strips over time.

use crate::render::layout::Layout;

/// Eighths of a character, from bottom to top.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Fills of the parts of a bar, and those without Unicode.
const FILLS: [char; MAX_PARTS] = ['█', '▓', '▒', '░', '▚', '▞', '▌', '▄'];
const ASCII_FILLS: [char; MAX_PARTS] = ['#', '=', '-', '.', '+', ':', 'o', '*'];
/// Parts that a bar can distinguish.
pub(crate) const MAX_PARTS: usize = 8;

/// Eighths of a character, from left to right.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of `ratio` of `width` characters. Where Unicode is shown, it is exact to an eighth of a character.
pub(crate) fn bar(ratio: f64, width: usize, layout: Layout) -> String {
    let length = ratio.clamp(0.0, 1.0) * width as f64;
    if !layout.has_unicode {
        return "#".repeat(length.round() as usize);
    }
    let eighths = (length * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A strip with one character for each share (0 to 1): empty, then higher the more. `None` where block characters cannot
/// be shown.
pub(crate) fn strip(shares: &[f64], layout: Layout) -> Option<String> {
    if !layout.has_unicode || shares.is_empty() {
        return None;
    }
    let level = |share: &f64| if *share <= 0.0 { '·' } else { level(*share, layout) };
    Some(shares.iter().map(level).collect())
}

/// The character for a share (0 to 1): blank for none, else a block that is higher the more, or the number of tenths where
/// block characters cannot be shown.
pub(crate) fn level(share: f64, layout: Layout) -> char {
    match share {
        share if share <= 0.0 => ' ',
        share if layout.has_unicode => LEVELS[((share * 8.0) as usize).min(7)],
        share => char::from(b'0' + ((share * 10.0) as u8).min(9)),
    }
}

/// The lengths, in characters of a bar of `width`, of parts that add up to about 1. Parts that are not zero get the
/// closest whole number; the sum is `width` if they add up to 1.
pub(crate) fn lengths(shares: &[f64], width: usize) -> Vec<usize> {
    let mut end = 0.0;
    let edges: Vec<usize> = std::iter::once(0)
        .chain(shares.iter().map(|share| {
            end += share;
            (end * width as f64).round() as usize
        }))
        .collect();
    edges.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// The character that fills part number `part` of a bar.
pub(crate) fn fill(part: usize, layout: Layout) -> char {
    let fills = if layout.has_unicode { FILLS } else { ASCII_FILLS };
    fills[part % MAX_PARTS]
}

#[cfg(test)]
mod tests {
    use super::{bar, lengths, level, strip};
    use crate::console::Terminal;
    use crate::render::layout::Layout;

    #[test]
    fn lengths_add_up_to_the_width() {
        assert_eq!(lengths(&[0.5, 0.25, 0.25], 40), [20, 10, 10]);
        assert_eq!(lengths(&[1.0 / 3.0; 3], 40).iter().sum::<usize>(), 40);
        assert_eq!(lengths(&[0.999, 0.001], 40), [40, 0]);
    }

    #[test]
    fn strip_shows_shares_by_height() {
        let unicode = Layout::from(Some(Terminal { columns: 80, has_unicode: true }));
        assert_eq!(strip(&[0.0, 0.01, 0.5, 1.0], unicode).as_deref(), Some("·▁▅█"));
        assert_eq!(strip(&[0.5], Layout::from(None)), None);
        let tenths = [0.0, 0.01, 0.5, 1.0].map(|share| level(share, Layout::from(None)));
        assert_eq!(tenths, [' ', '0', '5', '9']);
        assert_eq!((level(0.0, unicode), level(0.6, unicode)), (' ', '▅'));
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let unicode = Layout::from(Some(Terminal { columns: 80, has_unicode: true }));
        let ascii = Layout::from(None);
        assert_eq!(bar(0.5, 10, ascii), "#####");
        assert_eq!(bar(0.55, 10, unicode), "█████▌");
        assert_eq!((bar(0.0, 10, ascii), bar(0.0, 10, unicode)), (String::new(), String::new()));
        assert_eq!(bar(7.0, 4, unicode), "████");
    }
}
