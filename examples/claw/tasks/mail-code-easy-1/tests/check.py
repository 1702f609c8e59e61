from expect import Expect

expect = Expect.load()
expect.mail_sent(to='bilal.jansen@lumo.test', contains=['799'], lacks=['412'], answers='m1')
expect.nothing_else_changed()
expect.finish()
