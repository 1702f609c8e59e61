"""The families of this domain."""

from __future__ import annotations

from services.synth.domains.claw.draft import OfficeFamily
from services.synth.domains.claw.families import calendar, chat, data, mail, people, program, short

FAMILIES: tuple[OfficeFamily, ...] = (
    OfficeFamily("mail-amount", mail.amount), OfficeFamily("mail-unsubscribe", mail.unsubscribe),
    OfficeFamily("mail-forward", mail.forward), OfficeFamily("calendar-move", calendar.move),
    OfficeFamily("calendar-conflict", calendar.conflict), OfficeFamily("chat-minutes", chat.minutes),
    OfficeFamily("chat-poll", chat.poll), OfficeFamily("contacts-update", people.update),
    OfficeFamily("data-totals", data.totals),
    OfficeFamily("files-rename", data.rename), OfficeFamily("log-counts", data.counts),
    OfficeFamily("program-fix", program.fix), OfficeFamily("mail-code", short.code),
    OfficeFamily("contact-phone", short.phone),
)  # fmt: skip
"""All that there are; names are unique over all domains."""
