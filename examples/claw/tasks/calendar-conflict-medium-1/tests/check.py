from expect import Expect

expect = Expect.load()
expect.event_deleted('e4')
expect.mail_sent(to='jamal.kovacs@lumo.test', subject='Cancelled: Echo risk check')
expect.mail_sent(to='mirela.ximenes@lumo.test', subject='Cancelled: Echo risk check')
expect.nothing_else_changed()
expect.finish()
