from expect import Expect

expect = Expect.load()
expect.mail_sent(to='celia.castell@alder-works.test', contains=['5323.43'], lacks=['1149.79', '1912.70', '2428.53', '2927.44'], answers='m3')
expect.files_untouched({
    "invoices.csv": "429b1e1ab21de994b9714ead8a2bac3b69c0d21c8359705b063631464ddaf68f",
    "payments.csv": "f28ec82773db8d2f7c88cf1056f95ce7e93ec748054a9620eba7819bd08f0645"
})
expect.nothing_else_changed()
expect.finish()
