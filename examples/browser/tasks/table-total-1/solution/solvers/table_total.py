"""Reads all pages of the invoices, and of the customers if a region is asked for, and reports the number."""

from __future__ import annotations

from .visitor import Visitor, known, visiting


def customers_of(visitor: Visitor, region: str) -> set[str]:
    """Customers of a region, by their own pages."""
    visitor.follow("Customers")
    links = {row[0]: page.links[row[0]] for page in visitor.leaves() for row in page.rows[1:]}
    return {name for name, to in links.items() if visitor.go(to).fact("Region") == region}


def main() -> None:
    task = known()
    with visiting() as visitor:
        visitor.send("Sign in", user=task["user"], password=task["password"])
        names = {task["customer"]} if task["customer"] else customers_of(visitor, task["region"])
        visitor.follow("Invoices")
        visitor.send("Show", status=task["status"])
        rows = [row for page in visitor.leaves() for row in page.rows[1:] if row[1] in names]
        cents = [int(row[4].replace(".", "")) for row in rows]
        amount = max(cents) if task["figure"] == "largest" else sum(cents)
        value = str(len(cents)) if task["figure"] == "count" else f"{amount // 100}.{amount % 100:02}"
        visitor.follow("Report")
        visitor.send("File report", value=value)


if __name__ == "__main__":
    main()
