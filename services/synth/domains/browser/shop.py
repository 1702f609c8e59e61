"""Compare products by what was asked for, and order the right one."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
CATEGORIES = {
    "Lamps": ("desk lamp", "floor lamp", "reading lamp"), "Kettles": ("kettle", "travel kettle", "tea kettle"),
    "Bags": ("rucksack", "shoulder bag", "sports bag"), "Clocks": ("wall clock", "alarm clock", "kitchen clock"),
}  # fmt: skip
WARRANTIES = ("1 year", "2 years", "5 years")
DELIVERIES = ("Collect at the shop", "Standard delivery", "Express delivery")
CHECKOUT = [
    {"title": "Address", "fields": [
        {"name": "name", "label": "Name"},
        {"name": "street", "label": "Street and number"},
        {"name": "postcode", "label": "Postcode", "pattern": r"\d{5}", "hint": "five digits"},
        {"name": "town", "label": "Town"},
    ]},
    {"title": "Delivery", "fields": [
        {"name": "delivery", "label": "Delivery", "options": list(DELIVERIES)},
        {"name": "note", "label": "Note for the driver", "optional": True},
    ]},
]  # fmt: skip
Product = dict[str, Any]


def draw(rng: Random, level: int) -> Drawn:
    """An order: level 1 asks for the cheapest, 2 for a rating and a colour too, 3 for several with a warranty."""
    category = rng.choice(list(CATEGORIES))
    wish: dict[str, Any] = {
        "category": category,
        "quantity": 1 if level < 3 else rng.randrange(2, 5),
        "tenths": 0,
        "details": {},
    }
    if level > 1:
        wish |= {"tenths": rng.choice((40, 42, 44)), "details": {"Colour": rng.choice(content.COLOURS)}}
    if level > 2:
        wish["details"]["Warranty"] = rng.choice(WARRANTIES[1:])
    products = _products(rng, wish)
    best = min((p for p in products if fits(p, wish)), key=lambda product: product["cents"])
    (name,) = content.people(rng, 1)
    address = {
        "name": name, "street": f"{rng.choice(content.STREETS)} {rng.randrange(1, 90)}",
        "postcode": f"{rng.randrange(10_000, 99_999)}", "town": rng.choice(content.TOWNS),
    }  # fmt: skip
    delivery = {
        "delivery": rng.choice(DELIVERIES),
        "note": rng.choice(("", "Ring twice", "Leave with the neighbour")) if level > 1 else "",
    }
    order = {"items": {best["id"]: wish["quantity"]}, **address, **delivery}
    return Drawn(
        instruction=_instruction(wish, address, delivery),
        settings={"name": f"{rng.choice(content.BIRDS)} Stores", "checkout": CHECKOUT},
        tables={"products": products, "orders": []},
        changes=[{"table": "orders", "id": "orders-1", "set": order}],
        known={"wish": wish, "fields": {**address, **delivery}}, max_turns=25 + 5 * level,
    )  # fmt: skip


def fits(product: Product, wish: dict[str, Any]) -> bool:
    """Whether a product is what was asked for, and there are enough of it."""
    return (
        product["category"] == wish["category"] and product["stock"] >= wish["quantity"] and product["tenths"] >= wish["tenths"]
        and all(product["details"][name] == value for name, value in wish["details"].items())
    )  # fmt: skip


def _products(rng: Random, wish: dict[str, Any]) -> list[Product]:
    """Two that fit, cheaper ones that do not for one reason each, and others; no two have the same price or name."""
    prices = rng.sample(range(900, 9_900), 40)
    cheap, right, rest = sorted(prices[:8]), sorted(p + 10_000 for p in prices[8:10]), prices[10:]
    found = [_product(rng, wish["category"], cents, wish) for cents in right]
    spoilt: list[dict[str, Any]] = [{"stock": 0}, {"stock": wish["quantity"] - 1}]
    if wish["tenths"]:
        spoilt += [{"tenths": wish["tenths"] - rng.randrange(1, 4)} for _ in range(2)]
    for name, value in wish["details"].items():
        others = [other for other in (WARRANTIES if name == "Warranty" else content.COLOURS) if other != value]
        spoilt += [{"details": {name: rng.choice(others)}} for _ in range(2)]
    for cents, change in zip(cheap, spoilt, strict=False):
        product = _product(rng, wish["category"], cents, wish)
        found.append({**product, **change, "details": {**product["details"], **change.get("details", {})}})
    for cents in rest[: rng.randrange(18, 26)]:
        category = rng.choice([name for name in CATEGORIES if name != wish["category"]])
        found.append(_product(rng, category, cents, {"tenths": 30, "quantity": 0, "details": {}}))
    rng.shuffle(found)
    names = rng.sample([f"{bird} {number}" for bird in content.BIRDS for number in range(10, 60, 10)], len(found))
    return [
        {"id": f"p{n}", "name": f"{name} {rng.choice(CATEGORIES[p['category']])}", **p}
        for n, (name, p) in enumerate(zip(names, found, strict=True), 1)
    ]


def _product(rng: Random, category: str, cents: int, wish: dict[str, Any]) -> Product:
    """A product that has what is wished for."""
    details = {
        "Colour": rng.choice(content.COLOURS), "Warranty": rng.choice(WARRANTIES), "Weight": f"{rng.randrange(200, 4000)} g",
    }  # fmt: skip
    return {
        "category": category, "cents": cents, "tenths": rng.randrange(max(wish["tenths"], 30), 50),
        "stock": wish["quantity"] + rng.randrange(0, 9), "details": {**details, **wish["details"]},
    }  # fmt: skip


def _instruction(wish: dict[str, Any], address: dict[str, str], delivery: dict[str, str]) -> str:
    asked = [f"{name.lower()} {value}" for name, value in wish["details"].items()]
    asked += [f"a rating of {wish['tenths'] / 10:.1f} or more"] if wish["tenths"] else []
    which = f" with {', '.join(asked)}" if asked else ""
    several = wish["quantity"] > 1
    many = f"{wish['quantity']} pieces of " if several else ""
    stock = f"of which at least {wish['quantity']} are" if several else "that is"
    note = (
        f'With the note for the driver: "{delivery["note"]}".' if delivery["note"] else "Leave the note for the driver empty."
    )
    return f"""
Order in the shop {SITE} {many}the cheapest product of the category {wish["category"]}{which} {stock} in stock.

To {address["name"]}, {address["street"]}, {address["postcode"]} {address["town"]}. {delivery["delivery"]}. {note}

Place one order, and nothing else in it."""
