//! Examples at the end of the help of each command.

pub(super) const PROGRAM: &str = "\
Examples:
  advisor demo -o run/                    create a run to try the commands on
  advisor check run/                      list what to fix
  advisor explain IN001                   explain a rule
  advisor analyze step_time run/          print an analysis

`advisor help COMMAND` shows examples of a command.";

pub(super) const CHECK: &str = "\
Examples:
  advisor check run/
  advisor check run/ --select IN,GU001 --explain
  advisor check run/ --steps 5-8 --ranks 0
  advisor check run/ -o report.html
  advisor check run/ --baseline main.json --fail-on high
  gzip -dc rank0.json.gz | advisor check -";

pub(super) const RECORD: &str = "\
Examples:
  advisor record -- python train.py
  advisor record --steps 100-106 -o slow/ -- python train.py --epochs 1
  advisor record -- torchrun --nproc-per-node 8 train.py";

pub(super) const SQL: &str = "\
Examples:
  advisor sql run/
  advisor sql run/ 'SELECT name, count(*) AS calls FROM kernels GROUP BY name ORDER BY calls DESC LIMIT 5'
  advisor sql run/ 'SELECT * FROM steps' -o steps.csv
  advisor sql run/ < queries.sql";

pub(super) const ANALYZE: &str = "\
Examples:
  advisor analyze --list
  advisor analyze gpu_idle_causes run/
  advisor analyze step_time run/ --format csv
  advisor analyze gpu_utilization runs/ --each";

pub(super) const DIFF: &str = "\
Examples:
  advisor diff before/ after/
  advisor diff before/ after/ --fail-on regression
  advisor diff before/ after/ --level kernel --sort time --limit 20 --wide
  advisor diff run/ run/ --before-steps 5 --after-steps 6";

pub(super) const AUGMENT: &str = "\
Examples:
  advisor augment run/ -o augmented/
  advisor augment run/ -o augmented/ --only findings --select IN";

pub(super) const CUT: &str = "\
Examples:
  advisor cut run/ --steps 4-5 -o small/
  advisor cut run/ --between 10ms..50ms --ranks 0 -o small/
  advisor check small/";

pub(super) const MERGE: &str = "\
Examples:
  advisor merge run/
  advisor merge run/ -o merged.json.gz --force";

pub(super) const EXPORT: &str = "\
Examples:
  advisor export run/ -o run.pq
  advisor check run.pq";

pub(super) const MAP: &str = "\
Examples:
  advisor map run/ --to mapped/
  advisor map s3://bucket/run/ --shard 2/8 --to s3://bucket/mapped/
  advisor check s3://bucket/run/ --from s3://bucket/mapped/";

pub(super) const WATCH: &str = "\
Examples:
  advisor watch run/
  advisor watch s3://bucket/run/ --every 5m --map-to s3://bucket/mapped/
  advisor watch run/ --report last.json --prometheus /var/lib/node_exporter/advisor.prom";

pub(super) const TIMELINE: &str = "\
Examples:
  advisor timeline run/
  advisor timeline run/ --finding IN001
  advisor timeline run/ --step 7 --ranks 1
  advisor timeline run/ -o step.svg";

pub(super) const OPEN: &str = "\
Examples:
  advisor open run/
  advisor open run/ --augment --ranks 1
  advisor open run/ --report
  advisor open run/ --between 100ms..150ms
  advisor open run/ --no-browser";

pub(super) const TABLES: &str = "\
Examples:
  advisor tables
  advisor tables kernels
  advisor tables gpu_idle_causes --sql
  advisor tables run/
  advisor tables run/ kernels";

pub(super) const EXPLAIN: &str = "\
Examples:
  advisor explain
  advisor explain IN001
  advisor explain dataloader-wait";

pub(super) const RULES: &str = "\
Examples:
  advisor rules list --select memory
  advisor rules test advisor.toml
  advisor rules stats --each runs/";

pub(super) const INIT: &str = "\
Examples:
  advisor init
  advisor rules test";

pub(super) const SCHEMA: &str = "\
Examples:
  advisor schema report
  advisor schema rules";

pub(super) const DEMO: &str = "\
Examples:
  advisor demo -o run/
  advisor demo -o slow/ --bottleneck straggler --ranks 8";

pub(super) const CACHE: &str = "\
Examples:
  advisor cache info
  advisor cache clean --older-than 7d";

pub(super) const MAN: &str = "\
Examples:
  advisor man | man -l -
  advisor man check | man -l -
  advisor man -o ~/.local/share/man/man1";

pub(super) const COMPLETIONS: &str = "\
Examples:
  advisor completions bash > ~/.local/share/bash-completion/completions/advisor
  advisor completions zsh > ~/.zfunc/_advisor
  advisor completions fish > ~/.config/fish/completions/advisor.fish";
