from expect import Expect

expect = Expect.load()
expect.mail_sent(to='leave-969@vinyl-mail.test', subject='unsubscribe')
expect.mail_sent(to='leave-361@gadget-radar.test', subject='unsubscribe')
expect.mails_moved(['m2', 'm8', 'm20', 'm17', 'm23', 'm24', 'm12', 'm16'], 'archive')
expect.nothing_else_changed()
expect.finish()
