//! Tables for a terminal: columns as wide as they need to be, the last one cut to what is left.
//!
//! Pure: `ask` fills rows, this lays them out for a width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::output::on_one_line;

/// Columns that the last column keeps in any case: less is no text.
const LAST_MIN: usize = 16;
const GAP: &str = "  ";

/// A table with one line a row. `width` is the terminal's; without one nothing is cut.
pub(super) fn render<const N: usize>(heads: [&str; N], rows: &[[String; N]], width: Option<usize>) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| on_one_line(cell))).collect();
    let mut widths = heads.map(UnicodeWidthStr::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let (Some(total), Some((last, rest))) = (width, widths.split_last_mut()) {
        let taken: usize = rest.iter().map(|width| width + GAP.len()).sum();
        *last = (*last).min(total.saturating_sub(taken).max(LAST_MIN));
    }
    let mut out = String::new();
    line(&mut out, &heads.map(str::to_owned), &widths);
    for row in &rows {
        line(&mut out, row, &widths);
    }
    out
}

fn line(out: &mut String, cells: &[String], widths: &[usize]) {
    let mut pending = 0;
    for (cell, width) in cells.iter().zip(widths) {
        let shown = cut(cell, *width);
        // Blanks are written only before something that follows them: no line ends in white space.
        if !shown.is_empty() {
            out.extend(std::iter::repeat_n(' ', pending));
            out.push_str(&shown);
            pending = 0;
        }
        pending += width.saturating_sub(shown.width()) + GAP.len();
    }
    out.push('\n');
}

/// At most `width` columns; a cut text ends in `…`.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let kept = text.chars().take_while(|c| {
        let needs = c.width().unwrap_or(0);
        let fits = needs <= left;
        left = left.saturating_sub(needs);
        fits
    });
    let mut shown: String = kept.collect();
    shown.truncate(shown.trim_end().len());
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<[String; 2]> {
        [("a", "short"), ("long-name", "a description\nwith a second line that is long")]
            .map(|(name, text)| [name.to_owned(), text.to_owned()])
            .to_vec()
    }

    #[test]
    fn columns_line_up_and_nothing_is_cut_without_a_terminal() {
        let want = "NAME       ABOUT\na          short\nlong-name  a description with a second line that is long\n";
        assert_eq!(render(["NAME", "ABOUT"], &rows(), None), want);
    }

    #[test]
    fn the_last_column_is_cut_to_the_terminal() {
        let want = "NAME       ABOUT\na          short\nlong-name  a description with…\n";
        assert_eq!(render(["NAME", "ABOUT"], &rows(), Some(30)), want);
        for width in 0..60 {
            let page = render(["NAME", "ABOUT"], &rows(), Some(width));
            assert!(page.lines().all(|l| l.width() <= width.max(11 + LAST_MIN)), "{width}: {page}");
        }
    }

    #[test]
    fn wide_characters_count_for_two_columns() {
        let rows = [["日本".to_owned(), "x".to_owned()], ["abcd".to_owned(), "y".to_owned()]];
        assert_eq!(render(["A", "B"], &rows, Some(40)), "A     B\n日本  x\nabcd  y\n");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn an_empty_last_cell_leaves_no_blanks_behind() {
        assert_eq!(render(["A", "B"], &[["x".to_owned(), String::new()]], None), "A  B\nx\n");
    }
}
