from expect import Expect

expect = Expect.load()
expect.office_file('minutes/granite.md', '# Minutes of Granite\n- 2026-08-14 Jamal: book the venue\n- 2026-08-19 Maud: order new badges\n- 2026-08-20 Priya: prepare the slides\n- 2026-08-23 Maud: renew the licence\n- 2026-08-28 Zora: close the old tickets\n- 2026-09-01 Dmitri: call the printer\n')
expect.nothing_else_changed()
expect.finish()
