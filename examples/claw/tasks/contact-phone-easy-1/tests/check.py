from expect import Expect

expect = Expect.load()
expect.mail_sent(to='xenia.ekwueme@lumo.test', contains=['555-3465'], lacks=['555-7444', '555-1586', '555-2878'], answers='m1')
expect.nothing_else_changed()
expect.finish()
