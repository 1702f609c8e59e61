"""The families of this domain."""

from __future__ import annotations

from services.synth.domains.browser import bookings, forum, permits, records, shop, wiki
from services.synth.domains.browser.drawing import SiteFamily
from services.synth.ports import Family

FAMILIES: tuple[Family, ...] = (
    SiteFamily("wiki-find", "wiki", wiki.draw),
    SiteFamily("shop-order", "shop", shop.draw),
    SiteFamily("permit-form", "permits", permits.draw),
    SiteFamily("table-total", "records", records.draw),
    SiteFamily("booking-move", "bookings", bookings.draw),
    SiteFamily("forum-moderate", "forum", forum.draw),
)
"""All that there are; names are unique over all domains."""
