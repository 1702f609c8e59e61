from expect import Expect

expect = Expect.load()
expect.json_is('out/errors.json', {"2026-07-03": 6, "2026-07-04": 9, "2026-07-05": 7})
expect.files_untouched({
    "logs/2026-07-03.log": "64ee3cce42244eaf65636f6cc4d9cee72e3b9cc83c69ee9c32a8ac2dff0cc6ca",
    "logs/2026-07-04.log": "62e5a10d276ec33f309deb1e0c9cabfe78c48640dc9dfda744ebba99fae13beb",
    "logs/2026-07-05.log": "9bf07453b5029ac45445d919710fe5ba99703b73a03c14e08cac528ecfe06e38"
})
expect.nothing_else_changed()
expect.finish()
