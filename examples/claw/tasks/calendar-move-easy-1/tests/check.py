from expect import Expect

expect = Expect.load()
expect.event_at('e1', '2026-06-04T10:00', '2026-06-04T11:00')
expect.nothing_else_changed()
expect.finish()
