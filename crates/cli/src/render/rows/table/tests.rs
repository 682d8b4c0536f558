use std::sync::Arc;

use analyses::catalog;
use trace_advisor::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::super::{RowOptions, write_with};
use crate::args::RowFormat;
use crate::console::Terminal;

const ADD: &str =
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)";
const MUL: &str =
    "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >(int)";

fn text_column(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[expect(clippy::unnecessary_wraps, reason = "as functions take it")]
fn terminal(columns: usize) -> Option<Terminal> {
    Some(Terminal { columns, has_unicode: false })
}

fn print(
    columns: Vec<(&str, ArrayRef)>,
    options: RowOptions<'_>,
    terminal: Option<Terminal>,
) -> String {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut out = Vec::new();
    write_with(&[batch], RowFormat::Table, options, &mut out, terminal).unwrap();
    String::from_utf8(out).unwrap()
}

fn of_view(name: &str) -> RowOptions<'static> {
    RowOptions { view: catalog().find(name), ..RowOptions::default() }
}

fn kernels() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("rank", ints(&[0, 0])),
        ("name", text_column(&[ADD, MUL])),
        ("kind", text_column(&["computation", "computation"])),
        ("call_count", ints(&[12_000, 7])),
        ("sum_ns", ints(&[45_530_000, 1_200_000])),
        ("std_ns", ints(&[0, 0])),
        ("mean_ns", ints(&[3_794, 171_428])),
    ]
}

#[test]
fn a_pipe_gets_all_columns_and_long_names_cut() {
    let text = print(kernels(), of_view("gpu_kernels"), None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[..3].iter().all(|line| line.len() <= 100), "{text}");
    assert!(lines[1].contains("AddFunctor<float>") && lines[2].contains("MulFunctor"), "{text}");
    assert!(
        text.contains("std_ns") && text.contains("12,000") && !text.contains("hidden"),
        "{text}"
    );
    assert!(text.contains(" 45.53 ms") && text.contains("  1.20 ms"), "{text}");
    assert_eq!(lines[3], "long texts are cut (--wide, -f csv and -f json have them whole)");
    let short = vec![("name", text_column(&["aten::mm"]))];
    assert_eq!(print(short, RowOptions::default(), None), "name\naten::mm\n");
}

#[test]
fn wide_tables_are_whole_everywhere() {
    let wide = RowOptions { is_wide: true, ..of_view("gpu_kernels") };
    let text = print(kernels(), wide, None);
    assert!(text.contains(ADD) && text.contains(MUL) && text.contains("std_ns"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert_eq!(print(kernels(), wide, terminal(40)), text);
}

#[test]
fn a_single_row_leaves_zeros_out_everywhere() {
    let row = || {
        vec![
            ("rank", ints(&[0])),
            ("device", ints(&[0])),
            ("window_ns", ints(&[7_000])),
            ("busy_ns", ints(&[7_000])),
            ("idle_ns", ints(&[0])),
            ("graph_launch_count", ints(&[0])),
            ("step_count", ints(&[3])),
        ]
    };
    for terminal in [None, terminal(100)] {
        let text = print(row(), of_view("gpu_utilization"), terminal);
        assert!(!text.contains("idle_ns") && !text.contains("graph_launch_count"), "{text}");
        assert!(text.contains("rank") && text.contains("step_count"), "{text}");
        let note = "2 columns of 0 or without values hidden (--columns all shows all)\n";
        assert!(text.ends_with(note), "{text}");
    }
    let all = RowOptions { has_chosen_columns: true, ..of_view("gpu_utilization") };
    assert!(print(row(), all, None).contains("idle_ns"));
    let wide = RowOptions { is_wide: true, ..of_view("gpu_utilization") };
    assert!(print(row(), wide, None).contains("idle_ns"));
}

#[test]
fn the_measure_of_a_view_stays_even_if_it_is_zero() {
    let rows = vec![
        ("name", text_column(&["a", "b"])),
        ("sum_ns", ints(&[0, 0])),
        ("std_ns", ints(&[0, 0])),
    ];
    let text = print(rows, of_view("gpu_kernels"), terminal(100));
    assert!(text.starts_with("name  sum_ns\na          0\n"), "{text}");
}

#[test]
fn the_place_of_a_row_is_left_out_last_and_keeps_its_end() {
    let rows = vec![
        ("rank", ints(&[0, 0])),
        ("memory", text_column(&["cuda:0", "cuda:0"])),
        ("bytes", ints(&[3 << 30, 1 << 30])),
        ("self_bytes", ints(&[5, 1 << 30])),
        ("depth", ints(&[0, 1])),
        ("frame", text_column(&["main.py:1 run", "  /home/user/project/train.py:112 forward"])),
    ];
    let text = print(rows, of_view("memory_flame_graph"), terminal(40));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "rank  memory     bytes  frame");
    assert_eq!(lines[2], "   0  cuda:0  1.00 GiB    ...112 forward");
}

#[test]
fn a_terminal_gets_what_fits() {
    assert_eq!(
        print(kernels(), of_view("gpu_kernels"), terminal(100)),
        "\
rank  name                                              kind         call_count    sum_ns    mean_ns
   0  void at::native::vector...dFunctor<float> >(int)  computation      12,000  45.53 ms    3.79 us
   0  void at::native::vector...lFunctor<float> >(int)  computation           7   1.20 ms  171.43 us
1 column of 0 or without values hidden (--columns all shows all)
"
    );
    let narrow = print(kernels(), of_view("gpu_kernels"), terminal(40));
    assert!(
        narrow.contains(
            "void a...::AddFunctor...  45.53 ms
"
        ),
        "{narrow}"
    );
    assert!(
        narrow.contains(
            "void a...::MulFunctor...   1.20 ms
"
        ),
        "{narrow}"
    );
    let words: Vec<&str> = narrow.split_whitespace().collect();
    assert!(
        words.join(" ").contains("3 columns hidden for lack of width: kind, call_count, mean_ns"),
        "{narrow}"
    );
    for columns in [40, 100, 200] {
        let text = print(kernels(), of_view("gpu_kernels"), terminal(columns));
        let table = text.lines().take(3);
        assert!(table.clone().all(|line| line.chars().count() <= columns), "{text}");
        assert!(table.clone().all(|line| !line.contains("std_ns")), "{text}");
    }
    let wide = print(kernels(), of_view("gpu_kernels"), terminal(200));
    assert!(wide.contains(ADD) && wide.contains(MUL), "{wide}");
}

#[test]
fn a_terminal_with_unicode_gets_a_short_ellipsis() {
    let unicode = Some(Terminal { columns: 80, has_unicode: true });
    let text = print(kernels(), of_view("gpu_kernels"), unicode);
    assert!(text.contains('…') && !text.contains("..."), "{text}");
}

#[test]
fn a_single_row_of_a_view_is_one_line_per_column_with_its_meaning() {
    let row = || {
        vec![
            ("rank", ints(&[0])),
            ("device", ints(&[0])),
            ("window_ns", ints(&[774_556_667])),
            ("idle_ns", ints(&[272_769_000])),
            ("unattributed_cause", text_column(&["first_launch"])),
        ]
    };
    assert_eq!(
        print(row(), of_view("gpu_utilization"), terminal(80)),
        "\
rank                     0  rank
device                   0  device ordinal
window_ns           775 ms  from the start of the first complete step to the...
idle_ns             273 ms  nothing runs
unattributed_cause  first_launch  cause of most of that, see idle_gap_causes
"
    );
    let pipe = print(row(), of_view("gpu_utilization"), None);
    assert!(pipe.contains(" 775 ms  from the start of the first complete step"), "{pipe}");
    let query = print(row(), RowOptions::default(), None);
    assert_eq!(query.lines().count(), 2, "{query}");
}

#[test]
fn the_name_and_the_main_measure_are_left_out_last() {
    let rows = vec![
        ("rank", ints(&[0, 0])),
        ("name", text_column(&["aten::cudnn_convolution_backward_input", "aten::mm"])),
        ("host_self_ns", ints(&[29_300_000, 5_000_000])),
        ("device_self_ns", ints(&[131_000_000, 14_000_000])),
    ];
    let text = print(rows, of_view("op_by_name"), terminal(40));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with("rank name device_self_ns 0 aten::"), "{text}");
    assert!(words.contains("1 column hidden for lack of width: host_self_ns"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 40), "{text}");
}

#[test]
fn a_query_keeps_columns_of_zeros() {
    let rows = vec![("event_count", ints(&[0, 0])), ("sum_ns", ints(&[0, 0]))];
    assert_eq!(
        print(rows, RowOptions::default(), terminal(80)),
        "event_count  sum_ns\n          0       0\n          0       0\n"
    );
}

#[test]
fn chosen_columns_that_do_not_fit_become_lines() {
    let options = RowOptions { has_chosen_columns: true, ..of_view("gpu_kernels") };
    let text = print(kernels(), options, terminal(40));
    assert!(text.starts_with("row 1\nrank               0\n"), "{text}");
    assert!(text.contains("\nrow 2\n") && text.contains("std_ns"), "{text}");
}

#[test]
fn a_terminal_shows_40_rows_and_says_how_many_more() {
    let many: Vec<i64> = (0..1_250).collect();
    let rows = || vec![("step", ints(&many))];
    let text = print(rows(), RowOptions::default(), terminal(80));
    assert_eq!(text.lines().count(), 42);
    assert!(
        text.ends_with("... 1,210 more rows (--limit 0 shows all, -f csv -o FILE keeps all)\n")
    );
    let all = RowOptions { limit: Some(0), ..RowOptions::default() };
    assert_eq!(print(rows(), all, terminal(80)).lines().count(), 1_251);
    assert_eq!(print(rows(), RowOptions::default(), None).lines().count(), 1_251);
    let two = RowOptions { limit: Some(2), ..RowOptions::default() };
    assert_eq!(print(rows(), two, None), "step\n   0\n   1\n");
    assert!(print(rows(), two, terminal(80)).ends_with("... 1,248 more rows\n"));
}

#[test]
fn no_rows_are_said_once_with_the_reason() {
    let none = || vec![("rank", ints(&[]))];
    assert_eq!(print(none(), RowOptions::default(), None), "no rows\n");
    let view = catalog().find("memory_peak").unwrap();
    let text = print(none(), of_view("memory_peak"), None);
    assert_eq!(text, format!("no rows: {}\n", view.when_empty));
}
