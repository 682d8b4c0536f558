//! The critical path and its what-if scenarios on runs whose cause is known.

use trace_advisor::ingest::NoProgress;
use trace_advisor::query::Params;
use trace_advisor::{OpenOptions, Run};
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::critical::{gains, leads, path_shares};
use crate::support::rows;

fn number(run: &Run, query: &str) -> f64 {
    rows::number(&run.sql(query).unwrap())
}

#[test]
fn custom_what_if_equals_the_named_scenario() {
    let folder = demo(Bottleneck::DataLoading, 1, 0);
    let ask = |text: &str| {
        let mut params = Params::default();
        params.set("what_if", text);
        let options = OpenOptions { params, ..OpenOptions::default() };
        Run::open_with(folder.path(), &options, &NoProgress).unwrap()
    };
    let gains = gains(&ask("data_loading=0"), 0);
    let [custom, named] = ["custom", "data_loading_free"].map(|scenario| gains[scenario]);
    assert!(custom.total_cmp(&named).is_eq(), "{custom} {named}");
    assert!(gains["custom"] > 0.2);
    let error = ask("loading=0").analyze("critical_what_if").unwrap_err().to_string();
    assert!(
        error.contains("there is no class `loading`; classes are data_loading, host"),
        "{error}"
    );
}

fn demo(bottleneck: Bottleneck, ranks: u32, seed: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bottleneck, ranks, steps: 8, seed, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    folder
}

/// The simulation knows what each cause costs: the same run without it.
#[test]
fn planted_causes_lead_with_the_gain_of_removing_them() {
    for seed in [0, 7] {
        let healthy = demo(Bottleneck::None, 4, seed);
        let healthy = Run::open(healthy.path()).unwrap();
        let window = |run: &Run, rank: i32| {
            let query = format!("SELECT dur_ns FROM critical_windows WHERE rank = {rank}");
            number(run, &query)
        };
        assert!(path_shares(&healthy, 0)["kernel"] > 0.5);
        for (bottleneck, rank, scenario, cause, least, slack) in [
            (Bottleneck::DataLoading, 0, "data_loading_free", "data_loading", 0.3, 0.05),
            (Bottleneck::SmallKernels, 0, "host_2x_faster", "host", 0.9, 1.0),
            (Bottleneck::Straggler, 0, "communication_free", "communication", 0.4, 0.05),
            (Bottleneck::Sync, 0, "sync_free", "host", 0.2, 0.12),
        ] {
            let folder = demo(bottleneck, 4, seed);
            let slow = Run::open(folder.path()).unwrap();
            let gains = gains(&slow, rank);
            assert!(leads(&gains, scenario), "{bottleneck:?}, seed {seed}: {gains:?}");
            let share = path_shares(&slow, rank)[cause];
            assert!(share > least, "{bottleneck:?}, seed {seed}: {share}");
            let measured = 1.0 - window(&healthy, rank) / window(&slow, rank);
            let error = (gains[scenario] - measured).abs();
            assert!(error < slack, "{bottleneck:?}: predicted {}, is {measured}", gains[scenario]);
        }
        // Host time that a sync exposes lies right after it, and nowhere else.
        let after_sync = |bottleneck| {
            let folder = demo(bottleneck, 2, seed);
            let query = "SELECT after_sync_ratio FROM critical_path_causes WHERE rank = 0";
            number(&Run::open(folder.path()).unwrap(), query)
        };
        assert!(after_sync(Bottleneck::Sync) > 0.15);
        assert!(after_sync(Bottleneck::DataLoading) < 0.05);
        // The rank that straggles is slow by itself, not by waiting for the others.
        let folder = demo(Bottleneck::Straggler, 4, seed);
        assert!(path_shares(&Run::open(folder.path()).unwrap(), 3)["communication"] < 0.1);
    }
}
