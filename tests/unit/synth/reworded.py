"""Tasks of the examples in other words, written by hand: what a copy is that nobody finds by its rows of words."""

from __future__ import annotations

REWORDED = {
    "claw/calendar-conflict-medium-1": (
        "I (xenia.duarte@lumo.test) am double-booked on 2026-04-28. Remove whichever of the two colliding "
        "appointments fewer attendees belong to, and let all its other attendees know by email, subject line "
        "`Cancelled: TITLE` with the appointment's name, adding that you are sorry. Nothing else may be touched."
    ),
    "claw/calendar-move-easy-1": (
        "Reschedule `Fable hiring talk` to 2026-06-04, keeping its length. Its slot must be the earliest one "
        "starting on the hour, between 09:00 and 17:00, when neither your agenda nor Mirela's shows anything."
    ),
    "claw/chat-minutes-easy-1": (
        "Produce a record of what was decided in `fable`: create `minutes/fable.md` among the office's documents, "
        "headed `# Minutes of Fable`, and below it one bullet `- DAY NAME: WHAT` per post starting with `ACTION` "
        "(example: `- 2026-03-09 Ada: plan the tour`), in date order. Leave the rest alone."
    ),
    "claw/chat-poll-medium-1": (
        "People in `ripple` have been voting for a room by posting things such as `+1 Cellar`; a person's latest "
        "vote replaces the earlier one. Work out who won and announce it there as `Result: ROOM with N votes`."
    ),
    "claw/contact-phone-easy-1": (
        "Xenia Ekwueme has asked by email for somebody's telephone number. Look it up in the address book and answer her."
    ),
    "claw/contacts-update-medium-1": (
        "Several people have told Ada Petrov by email that their telephone changed, and her address book still has"
        " the old entries. Bring them up to date."
    ),
    "claw/data-totals-hard-1": (
        "An email from Xenia explains which months to cover and how to treat returns. Following it, use what lies "
        "in `orders/` to create `out/totals.csv`: columns `customer,total`, one line per buyer holding what they "
        "spent (price multiplied by quantity, two decimals such as 1240.50), biggest spender at the top."
    ),
    "claw/files-rename-hard-1": (
        "The office document `policies/names.txt` prescribes how receipts are to be called. Give the 10 documents "
        "in `receipts/` new names accordingly, without altering their content or leaving anything else there."
    ),
    "claw/log-counts-medium-1": (
        "Oskar has posted in `operations` that he wants to know how often a certain service failed. Go through "
        "`logs/`, whose lines consist of timestamp, severity and service, and save to `out/errors.json` how many "
        "ERROR entries it had per day: a JSON object keyed by day like 2026-03-09; leave out days with none."
    ),
    "claw/mail-amount-easy-1": (
        "Harbor Print has written to ask about a bill. Look up in `invoices.csv` how much the bill mentioned there"
        " comes to, and write back with just that sum in the form 1240.50."
    ),
    "claw/mail-code-easy-1": (
        "Somebody wants to know the Aurora code by email. It was posted in general on the chat; write back with it."
    ),
    "claw/mail-forward-hard-2": (
        "Following the guideline in `handbook/inbox.txt`, pass each of the 14 messages Ada has received on to "
        "whoever is in charge of that kind, if anybody is; you can tell the kind by the subject line. Where that "
        "person is marked absent today in the calendar, use the named substitute. Send nothing more than this."
    ),
    "claw/mail-unsubscribe-medium-1": (
        "Get rid of all mailing lists except Vinyl Mail and Museum Notes. For each, find the sign-off address "
        "given in one of its issues, email `unsubscribe` (as subject; body as you like) there, and put all of its "
        "issues that are in the inbox into `archive`."
    ),
    "claw/program-fix-easy-1": (
        "Debug `digits.py`. For all integers in each input line it ought to output their digit sum in base 6, "
        "ignoring minus signs, but at least one thing in it is wrong. The corrected script has to work in general;"
        " `check.py` shows some cases and can be executed but must not be edited."
    ),
    "computer/edit-text-1": (
        "Using the text editor shown, alter the shopping list: 40 nails become 410 nails, 14 beans go, and 331 "
        "wire comes in as the final entry. No blank lines should remain. Remember that a list is stored only if "
        "you save while you have it open."
    ),
    "computer/settings-dialog-0": (
        "In the preferences shown, pick 22 as font size and switch off the new-mail sound, then hit Apply so that "
        "it takes effect; touch nothing else."
    ),
    "computer/sort-files-1": (
        "Of the documents in Inbox, bring every .txt from 2020 or earlier over to Pictures by means of the file "
        "manager you see. Whatever else is in Inbox remains where it is."
    ),
    "browser/forum-moderate-1": (
        "Log in to http://site.test/ with user moderator and password siskin-712, look up what rule 6 of the forum"
        ' forbids, and make every message in "Mending clothes" which violates it invisible. Do not hide anything '
        "else."
    ),
    "browser/table-total-1": (
        "Using the account clerk (password kestrel-239) on http://site.test/, add up what Wren Foods and Sons has "
        "not paid yet, that is all its open bills, and submit the sum as a report on the same site. You can submit"
        " just one, and cannot take it back."
    ),
    "browser/wiki-find-2": (
        "Who designed the Kestrel Theatre, and in what town did that person come into the world? Use the "
        "encyclopaedia at http://site.test/ to learn which river flows through that town, and give just its name "
        "at the answer desk there; there is a single attempt."
    ),
}
"""By the folder that they are of."""
