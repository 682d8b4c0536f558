"""Tests of the GitHub Action, with the program and a server in place of GitHub.

ADVISOR names the program; by default it is the release build in the target folder.
"""

import json
import os
import re
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from github import STRANGER, TOKEN_OWNER, FakeApi, Runner

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ADVISOR", str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/advisor"))


class ActionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cache.cleanup)
        cls.cache = cache.name

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.api = FakeApi()
        self.addCleanup(self.api.close)
        self.summary = self.folder / "summary.md"
        self.event({"pull_request": {"number": 7}})

    def event(self, content):
        (self.folder / "event.json").write_text(json.dumps(content))

    def program(self, report):
        """A program that writes this report, and no annotations."""
        path = self.folder / "program"
        write = f"open(sys.argv[sys.argv.index('--output') + 1], 'w').write({report!r})"
        path.write_text(f"#!/usr/bin/env python3\nimport sys\nif '--output' in sys.argv:\n    {write}\n")
        path.chmod(0o755)
        return str(path)

    def run_action(self, status=0, **inputs):
        """Runs the action on the sample run; `fail_on` stands for the input `fail-on`."""
        environment = {
            "ADVISOR_CACHE_DIR": self.cache,
            "GITHUB_API_URL": self.api.url(),
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_GRAPHQL_URL": f"{self.api.url()}/graphql",
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_RUN_ID": "12",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(self.folder),
        }
        runner = Runner(ROOT / "action.yml", environment)
        inputs = {"run": str(ROOT / "examples/run"), "program": PROGRAM} | inputs
        found = runner.run({name.replace("_", "-"): value for name, value in inputs.items()})
        self.assertEqual(found, status, runner.log)
        return runner

    def test_check_reports_and_passes_by_default(self):
        runner = self.run_action(sarif="true")
        self.assertIn("::error file=train.py,line=61,title=IN001", runner.log)
        report = json.loads(Path(runner.outputs["run"]["json"]).read_text())
        codes = {finding["code"] for finding in report["findings"]}
        self.assertIn("IN001", codes)
        self.assertIn("<html", Path(runner.outputs["run"]["html"]).read_text())
        self.assertIn("IN001", self.summary.read_text())
        [comment] = self.api.comments
        self.assertIn("IN001", comment["body"])
        self.assertIn("https://github.com/o/r/actions/runs/12", comment["body"])
        sarif = json.loads(Path(runner.used["github/codeql-action/upload-sarif"]["sarif_file"]).read_text())
        self.assertEqual(sarif["version"], "2.1.0")
        uploaded = runner.used["actions/upload-artifact"]
        self.assertEqual(uploaded["name"], "advisor-report")
        files = sorted(path.name for path in Path(uploaded["path"]).iterdir())
        self.assertEqual(files, ["advisor.sarif", "report.html", "report.json", "report.md"])

    def test_check_fails_if_asked_after_the_reports(self):
        runner = self.run_action(status=1, fail_on="high")
        self.assertEqual(len(self.api.comments), 1)
        self.assertIn("actions/upload-artifact", runner.used)
        self.assertNotIn("github/codeql-action/upload-sarif", runner.used)
        self.run_action(fail_on="critical")

    def test_check_with_a_baseline_fails_for_new_findings_only(self):
        report = Path(self.run_action(status=1, fail_on="high").outputs["run"]["json"])
        self.run_action(fail_on="high", baseline=str(report))
        content = json.loads(report.read_text()) | {"findings": []}
        report.write_text(json.dumps(content))
        self.run_action(status=1, fail_on="high", baseline=str(report))

    def test_check_takes_rules_and_arguments(self):
        rules = self.folder / "my rules.toml"
        rules.write_text('[policy]\nselect = ["MM"]\n')
        self.run_action(rules=str(rules), arguments="--select 'IN001, IN002'")
        self.assertIn("IN002", self.summary.read_text())
        self.assertNotIn("GU001", self.summary.read_text())

    def test_run_that_cannot_be_read_fails(self):
        runner = self.run_action(status=2, run="missing")
        self.assertEqual(runner.log.count("cannot read missing"), 1)
        self.assertEqual(self.api.requests, [])
        self.assertNotIn("actions/upload-artifact", runner.used)

    def test_diff_compares(self):
        sample = str(ROOT / "examples/run")
        runner = self.run_action(mode="diff", before=sample, fail_on="regression", sarif="true")
        [comment] = self.api.comments
        self.assertIn("**unchanged**", comment["body"])
        self.assertIn("<html", Path(runner.outputs["run"]["html"]).read_text())
        self.assertNotIn("github/codeql-action/upload-sarif", runner.used)

    def test_wrong_inputs_are_errors(self):
        for inputs in ({"mode": "compare"}, {"mode": "diff"}, {"before": "x"}):
            runner = self.run_action(status=1, **inputs)
            self.assertIn("::error::`", runner.log)

    def test_inputs_are_documented(self):
        page = (ROOT / "docs/ci.md").read_text()
        table = page[page.index("| input | default |") : page.index("The outputs are")]
        documented = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
        self.assertEqual(documented, list(Runner(ROOT / "action.yml", {}).action["inputs"]))

    def test_later_runs_update_their_comment(self):
        marker = f"<!-- trace-advisor: check {ROOT / 'examples/run'} -->"
        quote = {"id": 1, "user": TOKEN_OWNER, "body": f"> {marker}\n\nA comment quotes the report."}
        self.api.comments.append(quote)
        self.run_action()
        self.run_action(comment_key="other")
        self.run_action(arguments="--select IN001")
        self.assertEqual(len(self.api.comments), 3)
        self.assertNotIn("GU001", self.api.comments[1]["body"])
        self.assertIn("GU001", self.api.comments[2]["body"])

    def test_earlier_comment_is_found_on_a_later_page(self):
        self.api.comments += [{"id": i + 1, "user": STRANGER, "body": None} for i in range(200)]
        program = self.program("# Report")
        self.run_action(program=program)
        self.run_action(program=program)
        self.assertEqual(len(self.api.comments), 201)
        self.assertEqual(self.api.requests.count(("PATCH", "/repos/o/r/issues/comments/201")), 1)

    def test_comment_of_another_author_is_left_alone(self):
        body = f"<!-- trace-advisor: check {ROOT / 'examples/run'} -->\nwritten to be replaced"
        for author in (STRANGER, None):
            self.api.comments.append({"id": len(self.api.comments) + 1, "user": author, "body": body})
        program = self.program("# Report")
        self.run_action(program=program)
        self.run_action(program=program)
        self.assertEqual([comment["body"] for comment in self.api.comments[:2]], [body, body])
        self.assertEqual(len(self.api.comments), 3)
        self.assertIn("# Report", self.api.comments[2]["body"])

    def test_nothing_is_written_if_the_owner_of_the_token_is_unknown(self):
        self.api.tells_owner = False
        runner = self.run_action(program=self.program("# Report"))
        self.assertIn("::warning::cannot comment on the pull request: GitHub does not say who owns the token", runner.log)
        self.assertEqual(self.api.comments, [])

    def test_comment_that_is_refused_is_a_warning(self):
        self.api.refusal = 403
        runner = self.run_action(program=self.program("# Report"))
        self.assertIn("::warning::cannot comment on the pull request: HTTP Error 403", runner.log)
        self.assertIn("pull-requests: write", runner.log)

    def test_other_events_get_no_comment(self):
        self.event({"ref": "refs/heads/main"})
        program = self.program("# Report")
        self.run_action(program=program)
        self.run_action(program=program, pull_request="7", comment="false")
        self.assertEqual(self.api.requests, [])
        self.run_action(program=program, pull_request="7")
        self.assertEqual(len(self.api.comments), 1)

    def test_long_report_is_cut_between_sections(self):
        section = "\n<details><summary>finding</summary>\n\n" + "word " * 400 + "\n\n</details>\n"
        inner = "\n<details><summary>rest</summary>\n" + section * 50 + "\n</details>\n"
        self.run_action(program=self.program(inner))
        [comment] = self.api.comments
        body = comment["body"]
        self.assertGreater(len(body), 60_000)
        self.assertIn("too long for a comment", body)
        self.assertEqual(body.count("<details>"), body.count("</details>"))

    def test_program_is_installed_from_the_package(self):
        """Wheels of the same name stand for the package; the program of one starts the real one."""
        self.wheel("0.0.7", f"import os, sys\ndef main():\n    os.execv({PROGRAM!r}, ['advisor', *sys.argv[1:]])\n")
        self.wheel("0.0.8", "def main():\n    raise SystemExit('the version that was not asked for')\n")
        with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder)}):
            self.run_action(program="", version="0.0.7")
        self.assertEqual(len(self.api.comments), 1)

    def wheel(self, version, code):
        info = f"trace_advisor-{version}.dist-info"
        with zipfile.ZipFile(self.folder / f"trace_advisor-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("trace_advisor.py", code)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: trace-advisor\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\nadvisor = trace_advisor:main\n")
            wheel.writestr(f"{info}/RECORD", "")


if __name__ == "__main__":
    unittest.main()
