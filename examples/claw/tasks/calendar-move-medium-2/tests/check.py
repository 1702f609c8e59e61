from expect import Expect

expect = Expect.load()
expect.event_at('e1', '2026-07-22T13:00', '2026-07-22T15:00')
expect.mail_sent(to='nils.hollis@lumo.test', subject='Moved: Ripple quarter outlook', contains=['13:00'])
expect.mail_sent(to='carmen.weiss@lumo.test', subject='Moved: Ripple quarter outlook', contains=['13:00'])
expect.nothing_else_changed()
expect.finish()
