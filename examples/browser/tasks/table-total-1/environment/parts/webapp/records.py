"""Tables for people who sign in: invoices over many pages, and a form that takes one number."""

from __future__ import annotations

from collections.abc import Mapping

from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell

PAGE_SIZE = 10
COLUMNS = {"number": "Number", "customer": "Customer", "due": "Due", "status": "Status", "cents": "Amount"}


class Site(Shell):
    """Tables: `invoices` (number, customer, due, status, cents), `customers` (name, region, contact), `reports` (value);
    settings: `user`, `password`, `filters`, the columns that can be filtered."""

    members_only = True
    links: Mapping[str, str] = {"Invoices": "/", "Customers": "/customers", "Report": "/report"}

    def routes(self) -> Routes:
        return {
            "GET /": self._invoices, "GET /customers": self._customers, "GET /customer/*": self._customer,
            "GET /report": self._report, "POST /report": self._file,
        }  # fmt: skip

    def _invoices(self, asked: Asked) -> Answer:
        names: list[str] = self.settings["filters"]
        query = {name: text for name in (*names, "sort") if (text := asked.query.get(name, ""))}
        rows = self.kept.rows("invoices", **{name: query[name] for name in names if name in query})
        sort = query.get("sort", "number")
        rows.sort(key=lambda row: (row[sort], row["number"]) if sort in COLUMNS else row["number"])
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        lines = [[pages.money(row[name]) if name == "cents" else str(row[name]) for name in COLUMNS] for row in shown]
        found = pages.paragraph(f"{len(rows)} invoices.")
        table = pages.table(list(COLUMNS.values()), lines)
        return self.show("Invoices", self._filter(names, query), found, table, pages.pager("/", query, number, count))

    def _filter(self, names: list[str], query: Mapping[str, str]) -> str:
        fields = "".join(
            pages.choice(name, COLUMNS[name], self._values(name), query.get(name, ""), empty="All") for name in names
        ) + pages.choice("sort", "Sort by", list(COLUMNS), query.get("sort", "number"))
        return pages.form("/", fields, "Show", method="get")

    def _values(self, name: str) -> list[str]:
        return sorted({str(row[name]) for row in self.kept.rows("invoices")})

    def _customers(self, asked: Asked) -> Answer:
        rows = sorted(self.kept.rows("customers"), key=lambda row: row["name"])
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        lines = [[pages.link(f"/customer/{row['id']}", row["name"]), row["contact"]] for row in shown]
        return self.show("Customers", pages.table(("Name", "Contact"), lines), pages.pager("/customers", {}, number, count))

    def _customer(self, asked: Asked, row_id: str) -> Answer:
        row = self.kept.find("customers", row_id)
        if row is None:
            return self.missing()
        return self.show(row["name"], pages.facts([("Region", row["region"]), ("Contact", row["contact"])]))

    def _report(self, asked: Asked, error: str = "") -> Answer:
        note = pages.paragraph("A report is final. Amounts are written as 1234.50, counts as 12.")
        body = pages.form("/report", pages.entry("value", "Value"), "File report")
        return self.show("Report", pages.paragraph(error, "error") if error else "", note, body)

    def _file(self, asked: Asked) -> Answer:
        value = asked.form.get("value", "").strip()
        whole, _, cents = value.partition(".")
        if not whole.isdecimal() or (cents and not (cents.isdecimal() and len(cents) == 2)) or value.endswith("."):
            return self._report(asked, "Value: a number such as 1234.50 or 12.")
        self.kept.add("reports", {"value": value})
        return self.show("Thank you", pages.paragraph(f"The report was filed: {value}", "note"))
