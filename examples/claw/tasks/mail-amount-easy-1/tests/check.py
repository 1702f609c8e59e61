from expect import Expect

expect = Expect.load()
expect.mail_sent(to='quentin.novak@harbor-print.test', contains=['3789.08'], lacks=['1864.94', '2718.81', '3388.02'], answers='m2')
expect.files_untouched({
    "invoices.csv": "2bcbfa7efef01cb2e412ca3219a5bcbf8a7db4a9b730026ace9825303b70a443"
})
expect.nothing_else_changed()
expect.finish()
