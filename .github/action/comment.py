#!/usr/bin/env python3
"""Comments on a pull request for the GitHub Action. A later call with the same key updates the comment.

A hidden marker at the start of the comment holds the key. Anyone can write a comment with the marker, so only a comment by
the owner of the token is updated. What goes wrong is a warning: a report that cannot be posted, as from a fork whose token
may only read, does not fail the job.
"""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

# GitHub refuses longer comments.
COMMENT_LIMIT_CHARS = 65_536
PAGE_SIZE = 100


def send(method, url, content):
    request = urllib.request.Request(
        url,
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def call(method, path, content=None):
    return send(method, f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}", content)


def token_owner_id():
    """The number of the user or bot that comments with the token. REST does not tell it for the token of a job."""
    answer = send("POST", os.environ["GITHUB_GRAPHQL_URL"], {"query": "query { viewer { databaseId } }"})
    owner = (answer.get("data") or {}).get("viewer") or {}
    if not owner.get("databaseId"):
        raise ValueError("GitHub does not say who owns the token")
    return owner["databaseId"]


def pull_request_number():
    """The number from the input, else from the event that started the workflow."""
    if number := os.environ["PULL_REQUEST"]:
        return int(number)
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    return event.get("pull_request", {}).get("number")


def marker():
    # `--` would end the HTML comment.
    key = os.environ["COMMENT_KEY"].replace("--", "- -")
    return f"<!-- trace-advisor: {key} -->"


def earlier_comment(number):
    """The comment with the marker that the owner of the token wrote, if there is one."""
    owner_id = token_owner_id()
    page = 1
    while True:
        comments = call("GET", f"issues/{number}/comments?per_page={PAGE_SIZE}&page={page}")
        for comment in comments:
            # The account of an author may be deleted.
            author = comment["user"] or {}
            if author.get("id") == owner_id and (comment["body"] or "").startswith(marker()):
                return comment
        if len(comments) < PAGE_SIZE:
            return None
        page += 1


def shortened(report, limit):
    """The report, or as many whole sections of it as fit."""
    if len(report) <= limit:
        return report
    note = "\n\n*The rest of the report is too long for a comment.*"
    start = report[: limit - len(note) - 200]
    start = start[: max(start.rfind("\n<details"), 0)] or start
    unclosed = start.count("<details") - start.count("</details>")
    return start.rstrip() + "\n\n</details>" * unclosed + note


def comment_body():
    report = Path(os.environ["MARKDOWN"]).read_text(encoding="utf-8")
    env = os.environ
    job = f"{env['GITHUB_SERVER_URL']}/{env['GITHUB_REPOSITORY']}/actions/runs/{env['GITHUB_RUN_ID']}"
    start, end = f"{marker()}\n", f"\n\n---\n[Workflow run]({job})\n"
    return start + shortened(report.rstrip(), COMMENT_LIMIT_CHARS - len(start) - len(end)) + end


def main():
    try:
        number = pull_request_number()
        if number is None:
            print("No comment: the event is not about a pull request.")
            return
        content = {"body": comment_body()}
        if earlier := earlier_comment(number):
            posted = call("PATCH", f"issues/comments/{earlier['id']}", content)
        else:
            posted = call("POST", f"issues/{number}/comments", content)
        print(posted["html_url"])
    except urllib.error.HTTPError as error:
        help_text = " The token needs `pull-requests: write`." if error.code in (401, 403, 404) else ""
        print(f"::warning::cannot comment on the pull request: {error}.{help_text}")
    except (OSError, ValueError) as error:
        print(f"::warning::cannot comment on the pull request: {error}")


main()
