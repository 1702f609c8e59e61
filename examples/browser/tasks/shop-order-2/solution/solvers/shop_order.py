"""Looks at the products of the category from the cheapest on, and orders the first that is as it was asked for."""

from __future__ import annotations

from typing import Any

from .visitor import Page, Visitor, known, visiting


def fits(page: Page, wish: dict[str, Any]) -> bool:
    stock = page.fact("Availability").split()[0]
    return (
        stock.isdecimal() and int(stock) >= wish["quantity"] and float(page.fact("Rating")) * 10 >= wish["tenths"] - 0.01
        and all(page.fact(name) == value for name, value in wish["details"].items())
    )  # fmt: skip


def choose(visitor: Visitor, wish: dict[str, Any]) -> None:
    """Opens the page of the product."""
    visitor.send("Show", category=wish["category"], sort="price")
    products = [page.links[row[0]] for page in visitor.leaves() for row in page.rows[1:]]
    next(to for to in products if fits(visitor.go(to), wish))


def main() -> None:
    task = known()
    fields: dict[str, str] = task["fields"]
    with visiting() as visitor:
        choose(visitor, task["wish"])
        visitor.send("Add to cart", quantity=str(task["wish"]["quantity"]))
        visitor.follow("Checkout")
        visitor.send("Continue", **{name: fields[name] for name in ("name", "street", "postcode", "town")})
        visitor.send("Continue", delivery=fields["delivery"], note=fields["note"])
        visitor.send("Submit")


if __name__ == "__main__":
    main()
