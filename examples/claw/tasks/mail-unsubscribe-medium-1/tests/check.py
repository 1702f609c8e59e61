from expect import Expect

expect = Expect.load()
expect.mail_sent(to='leave-705@hiking-post.test', subject='unsubscribe')
expect.mail_sent(to='leave-914@star-gazer.test', subject='unsubscribe')
expect.mail_sent(to='leave-276@sailing-news.test', subject='unsubscribe')
expect.mails_moved(['m2', 'm1', 'm7', 'm6', 'm5', 'm10'], 'archive')
expect.nothing_else_changed()
expect.finish()
