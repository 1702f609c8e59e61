"""Names and words that families draw from. Invented; addresses end in .test, which nobody can have."""

from __future__ import annotations

FIRST = (
    "Ada", "Bilal", "Carmen", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jonas", "Kalina", "Leo", "Mirela", "Nadia",
    "Oskar", "Priya", "Quentin", "Rosa", "Samir", "Tilda", "Umar", "Vera", "Wanda", "Xenia", "Yusuf", "Zora", "Anselm",
    "Birgit", "Celia", "Dario", "Esther", "Fabio", "Gwen", "Hugo", "Irena", "Jamal", "Keiko", "Lars", "Maud", "Nils",
)  # fmt: skip
LAST = (
    "Abara", "Brandt", "Castell", "Dvorak", "Ekwueme", "Falk", "Garnier", "Hollis", "Ibsen", "Jansen", "Kovacs", "Lindqvist",
    "Moreau", "Novak", "Okafor", "Petrov", "Quist", "Rahman", "Santos", "Tanaka", "Ulrich", "Varga", "Weiss", "Ximenes",
    "Yilmaz", "Zeller", "Almeida", "Boateng", "Conti", "Duarte",
)  # fmt: skip
COMPANIES = (
    "Alder Works", "Birch Supply", "Cobalt Labs", "Dune Freight", "Ember Foods", "Fjord Textiles", "Garnet Tools",
    "Harbor Print", "Indigo Travel", "Juniper Clinic", "Kite Energy", "Larch Timber", "Marble Cafe", "Nimbus Air",
    "Ochre Paint", "Pebble Toys", "Quartz Optics", "Reed Music", "Slate Roofing", "Tundra Outdoor",
)  # fmt: skip
PROJECTS = (
    "Aurora", "Basalt", "Comet", "Delta", "Echo", "Fable", "Granite", "Horizon", "Iris", "Jade", "Krill", "Lotus", "Meridian",
    "Nectar", "Orbit", "Prism", "Quill", "Ripple", "Sierra", "Tempo",
)  # fmt: skip
MEETINGS = (
    "budget review", "design round", "hiring talk", "launch plan", "quarter outlook", "risk check", "roadmap session",
    "security walk-through", "site visit", "supplier call", "team retro", "tender review", "training hour", "vendor demo",
)  # fmt: skip
PLACES = ("Attic", "Blue room", "Cellar", "Garden room", "Glass room", "Library", "North hall", "Studio")
LISTS = (
    "Weekly Gardener", "Coffee Digest", "Hiking Post", "Gadget Radar", "Recipe Card", "Chess Letter", "Sailing News",
    "Bike Courier", "Museum Notes", "Film Ticker", "Bread Journal", "Star Gazer", "Vinyl Mail", "Tea Report",
)  # fmt: skip
GOODS = (
    "anchor bolts", "bench lamps", "copper wire", "drill bits", "edge trim", "felt pads", "glue sticks", "hose clamps",
    "ink rolls", "jute bags", "key boxes", "label tape", "mesh trays", "nylon rope", "oak boards", "paper reams",
)  # fmt: skip
TASKS = (
    "book the venue", "call the printer", "check the backup", "clean the test data", "close the old tickets",
    "draft the contract", "fix the login page", "order new badges", "plan the tour", "prepare the slides",
    "renew the licence", "send the survey", "test the export", "update the price list", "write the summary",
)  # fmt: skip
SMALL_TALK = (
    "Morning everyone.", "Has anyone seen my charger?", "The coffee machine works again.", "Lunch at noon?", "Thanks a lot!",
    "I am out until ten.", "Nice work yesterday.", "The lift is being repaired today.", "Happy Friday!", "Good point.",
    "Could somebody water the plants?", "The printer on floor two is jammed.", "See you at the stand-up.", "Sounds good to me.",
)  # fmt: skip
TOPICS = (
    "parking permits", "the new badge readers", "the summer party", "desk moves", "fire drill on Thursday", "lost umbrella",
    "visitor parking", "the kitchen rota", "travel rules", "the phone list", "window cleaning", "network upgrade",
)  # fmt: skip
