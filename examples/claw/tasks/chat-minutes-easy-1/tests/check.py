from expect import Expect

expect = Expect.load()
expect.office_file('minutes/fable.md', '# Minutes of Fable\n- 2026-07-06 Greta: send the survey\n- 2026-07-07 Hugo: check the backup\n- 2026-07-10 Farid: test the export\n')
expect.nothing_else_changed()
expect.finish()
