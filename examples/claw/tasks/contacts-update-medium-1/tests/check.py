from expect import Expect

expect = Expect.load()
expect.contact_is('c4', phone='555-7906')
expect.contact_is('c11', phone='555-4366')
expect.contact_is('c5', phone='555-6165')
expect.nothing_else_changed()
expect.finish()
