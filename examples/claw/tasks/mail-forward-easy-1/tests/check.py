from expect import Expect

expect = Expect.load()
expect.mail_sent(to='esther.boateng@lumo.test', answers='m9')
expect.mail_sent(to='esther.boateng@lumo.test', answers='m3')
expect.nothing_else_changed()
expect.finish()
