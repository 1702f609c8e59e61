"""A shop: a list that can be searched, filtered and sorted, pages of products, a cart and a checkout of several pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell
from .wizard import Wizard

PAGE_SIZE = 8
ORDERS = {
    "name": lambda row: row["name"],
    "price": lambda row: row["cents"],
    "rating": lambda row: -row["tenths"],
}


class Site(Shell):
    """Tables: `products` (name, category, cents, tenths of the rating, stock, details), `orders` (items, and the checkout's
    fields); settings: `checkout`, its steps."""

    links: Mapping[str, str] = {"Products": "/", "Cart": "/cart"}

    def routes(self) -> Routes:
        checkout = Wizard(self, "/checkout", self.settings["checkout"], self._order)
        return {
            "GET /": self._list, "GET /product/*": self._product, "POST /cart/add": self._add,
            "POST /cart/remove": self._remove, "GET /cart": self._cart, **checkout.routes(),
        }  # fmt: skip

    def _list(self, asked: Asked) -> Answer:
        query = {name: text for name in ("q", "category", "sort") if (text := asked.query.get(name, ""))}
        words = query.get("q", "").casefold().split()
        rows = [
            row for row in self.kept.rows("products")
            if query.get("category") in (None, row["category"]) and all(word in row["name"].casefold() for word in words)
        ]  # fmt: skip
        rows.sort(key=ORDERS.get(query.get("sort", "name"), ORDERS["name"]))
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), PAGE_SIZE)
        table = pages.table(("Product", "Category", "Price", "Rating"), [self._line(row) for row in shown])
        found = pages.paragraph(f"{len(rows)} products.")
        return self.show("Products", self._filter(query), found, table, pages.pager("/", query, number, count))

    def _filter(self, query: Mapping[str, str]) -> str:
        categories = sorted({row["category"] for row in self.kept.rows("products")})
        fields = (
            pages.entry("q", "Word in the name", query.get("q", ""))
            + pages.choice("category", "Category", categories, query.get("category", ""), empty="All")
            + pages.choice("sort", "Sort by", list(ORDERS), query.get("sort", "name"))
        )
        return pages.form("/", fields, "Show", method="get")

    def _line(self, row: dict[str, Any]) -> list[str]:
        return [pages.link(f"/product/{row['id']}", row["name"]), row["category"], pages.money(row["cents"]), rating(row)]

    def _product(self, asked: Asked, row_id: str, error: str = "") -> Answer:
        row = self.kept.find("products", row_id)
        if row is None:
            return self.missing()
        stock = f"{row['stock']} in stock" if row["stock"] else "sold out"
        known = [
            ("Category", row["category"]),
            ("Price", pages.money(row["cents"])),
            ("Rating", rating(row)),
            ("Availability", stock),
        ]
        fields = pages.hidden("id", row_id) + pages.entry("quantity", "Quantity", "1")
        buy = pages.form("/cart/add", fields, "Add to cart")
        complaint = pages.paragraph(error, "error") if error else ""
        return self.show(row["name"], complaint, pages.facts([*known, ("Availability", stock), *row["details"].items()]), buy)

    def _add(self, asked: Asked) -> Answer:
        row_id, text = asked.form.get("id", ""), asked.form.get("quantity", "")
        row = self.kept.find("products", row_id)
        if row is None:
            return self.missing()
        cart = self._in_cart(asked)
        quantity = int(text) if text.isdecimal() else 0
        if quantity < 1:
            return self._product(asked, row_id, "Quantity: a number from 1.")
        if cart.get(row_id, 0) + quantity > row["stock"]:
            return self._product(asked, row_id, "There are not as many in stock.")
        cart[row_id] = cart.get(row_id, 0) + quantity
        return Answer(to="/cart")

    def _remove(self, asked: Asked) -> Answer:
        self._in_cart(asked).pop(asked.form.get("id", ""), None)
        return Answer(to="/cart")

    def _cart(self, asked: Asked) -> Answer:
        cart = self._in_cart(asked)
        if not cart:
            return self.show("Cart", pages.paragraph("Your cart is empty."))
        lines, total = [], 0
        for row_id, quantity in cart.items():
            (row,) = self.kept.rows("products", id=row_id)
            total += quantity * row["cents"]
            remove = pages.form("/cart/remove", pages.hidden("id", row_id), "Remove", "inline")
            lines.append(
                [pages.link(f"/product/{row_id}", row["name"]), str(quantity), pages.money(quantity * row["cents"]), remove]
            )
        table = pages.table(("Product", "Quantity", "Price", ""), lines)
        return self.show("Cart", table, pages.paragraph(f"Total: {pages.money(total)}"), pages.link("/checkout/1", "Checkout"))

    def _order(self, asked: Asked, fields: dict[str, str]) -> Answer:
        cart = self._in_cart(asked)
        if not cart:
            return self.show("Cart", pages.paragraph("Your cart is empty: there is nothing to order.", "error"))
        order = self.kept.add("orders", {"items": dict(sorted(cart.items())), **fields})
        cart.clear()
        return self.show("Thank you", pages.paragraph(f"Your order {order} was placed.", "note"))

    def _in_cart(self, asked: Asked) -> dict[str, int]:
        cart: dict[str, int] = asked.session.setdefault("cart", {})
        return cart


def rating(row: Mapping[str, Any]) -> str:
    """Stars of a product."""
    return f"{row['tenths'] / 10:.1f}"
