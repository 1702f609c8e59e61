from expect import Expect

expect = Expect.load()
expect.mail_sent(to='bilal.rahman@lumo.test', answers='m8')
expect.mail_sent(to='bilal.rahman@lumo.test', answers='m4')
expect.mail_sent(to='bilal.rahman@lumo.test', answers='m6')
expect.mail_sent(to='hugo.santos@lumo.test', answers='m7')
expect.mail_sent(to='hugo.santos@lumo.test', answers='m9')
expect.mail_sent(to='ada.conti@lumo.test', answers='m11')
expect.mail_sent(to='ada.conti@lumo.test', answers='m13')
expect.mail_sent(to='ada.conti@lumo.test', answers='m5')
expect.nothing_else_changed()
expect.finish()
