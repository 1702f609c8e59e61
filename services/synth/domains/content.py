"""Words that tasks are made of: all made up, so that no answer is known from elsewhere."""

from __future__ import annotations

from random import Random

FIRST = (
    "Ada", "Anton", "Bela", "Bruno", "Carla", "Cedric", "Dalia", "Dov", "Edda", "Emil", "Fanny", "Felix", "Greta", "Gustav",
    "Hanna", "Hugo", "Ilse", "Ivo", "Jana", "Jonas", "Karin", "Kilian", "Lena", "Linus", "Marta", "Milo", "Nadia", "Nils",
    "Olga", "Oskar", "Paula", "Piet", "Rosa", "Ruben", "Selma", "Sven", "Thea", "Tomas", "Vera", "Viktor",
)  # fmt: skip
LAST = (
    "Ashdown", "Barlow", "Birkett", "Calder", "Cobb", "Dunmore", "Elkins", "Fenwick", "Garland", "Hadley", "Holt", "Ingram",
    "Jarrow", "Kendal", "Lambert", "Marsh", "Merrow", "Norwood", "Oakes", "Pellam", "Quill", "Redfern", "Sallow", "Tarrant",
    "Underhill", "Vane", "Wexley", "Yarrow",
)  # fmt: skip
TOWNS = (
    "Aldermere", "Brackwell", "Corvenham", "Dunhollow", "Eastmarsh", "Farrowdale", "Glimmerford", "Hartsend", "Ivelstow",
    "Kestrelby", "Larkhithe", "Mossgate", "Nettlecombe", "Oxmoor", "Pinbury", "Ravensworth", "Saltley", "Thornwick",
    "Wickenbridge", "Yewhurst",
)  # fmt: skip
RIVERS = ("Arle", "Brenn", "Cawdel", "Dusk", "Elver", "Fleam", "Gannel", "Hythe", "Isk", "Lorne", "Mere", "Tavel")
STREETS = (
    "Mill Lane", "Fox Road", "Chapel Street", "Harbour Way", "Orchard Row", "Station Road", "Tanner's Yard", "Birch Avenue",
    "Bridge Street", "Cooper's Hill", "Dove Lane", "Elm Terrace", "Forge Street", "Garden Walk", "High Meadow", "King's Quay",
)  # fmt: skip
BIRDS = (
    "Heron", "Plover", "Curlew", "Magpie", "Osprey", "Wren", "Linnet", "Falcon", "Swift", "Avocet", "Dipper", "Siskin",
    "Bittern", "Kestrel",
)  # fmt: skip
COLOURS = ("green", "blue", "red", "grey", "white", "black", "yellow")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def people(rng: Random, count: int) -> list[str]:
    """So many names, each first name and each last name once at most."""
    return [f"{first} {last}" for first, last in zip(rng.sample(FIRST, count), rng.sample(LAST, count), strict=True)]


def phone(rng: Random) -> str:
    """A telephone number of a range that nobody has."""
    return f"555 {rng.randrange(10_000):04}"
