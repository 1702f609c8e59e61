from expect import Expect

expect = Expect.load()
expect.posted('ripple', ['Result: Cellar with 4 votes'])
expect.nothing_else_changed()
expect.finish()
