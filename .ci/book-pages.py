#!/usr/bin/env python3
"""Preprocessor of mdBook (see book.toml).

Adds the pages of `docs/rules`, which `.ci/book` generates, and `docs/decisions` below their index pages, so that SUMMARY.md
does not have to list them.
Links to files outside `docs` become links to the repository; one that points nowhere is an error.
"""

import json
import re
import sys
from pathlib import Path

FOLDERS = ["rules", "decisions"]
LINK = re.compile(r"(\]\()([^):#\s]+)(#[^)\s]*)?(?=\))")

INDEX = re.compile(r"(?<![^/])README\.md$")


def title(text):
    return text.split("\n", 1)[0].lstrip("# ").strip()


def chapter(path, content, parent):
    return {
        "name": title(content),
        "content": content,
        "number": None,
        "sub_items": [],
        "path": path,
        "source_path": path,
        "parent_names": [*parent["parent_names"], parent["name"]],
    }


def add_pages(chapter_, source):
    folder = Path(chapter_["path"] or "").parent
    if str(folder) not in FOLDERS or Path(chapter_["path"]).name not in ("README.md", "index.md"):
        return
    pages = sorted(p for p in (source / folder).glob("*.md") if p.name != "README.md")
    for page in pages:
        path = str(page.relative_to(source))
        chapter_["sub_items"].append({"Chapter": chapter(path, page.read_text(), chapter_)})


def link_to_repository(chapter_, root, source, url, broken):
    page = source / chapter_["source_path"]

    def replace(match):
        target = (page.parent / match[2]).resolve()
        if target.is_relative_to(source):
            # mdBook writes the index page of a folder as `index.html`.
            return f"{match[1]}{INDEX.sub('index.md', match[2])}{match[3] or ''}"
        if not target.exists() or not target.is_relative_to(root):
            broken.append(f"{page.relative_to(root)}: {match[2]}")
            return match[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{match[1]}{url}/{kind}/main/{target.relative_to(root)}{match[3] or ''}"

    chapter_["content"] = LINK.sub(replace, chapter_["content"])


def walk(items, visit):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            visit(item["Chapter"])
            walk(item["Chapter"]["sub_items"], visit)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    root = Path(context["root"]).resolve()
    source = root / context["config"]["book"]["src"]
    url = context["config"]["output"]["html"]["git-repository-url"]
    items = book.get("items", book.get("sections"))
    broken = []
    walk(items, lambda c: add_pages(c, source))
    walk(items, lambda c: c["source_path"] and link_to_repository(c, root, source, url, broken))
    if broken:
        sys.exit("links to files that do not exist:\n  " + "\n  ".join(broken))
    json.dump(book, sys.stdout)


main()
