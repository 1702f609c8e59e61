from expect import Expect

expect = Expect.load()
expect.rows_are('out/totals.csv', [['customer', 'total'], ['Reed Music', '1546.37'], ['Indigo Travel', '1318.64'], ['Dune Freight', '1172.01'], ['Fjord Textiles', '841.22'], ['Kite Energy', '764.23']])
expect.files_untouched({
    "orders/2026-01.csv": "69c610e9b80bb0fd6639389c4b899a96f0c9dca0274df244180369b803607943",
    "orders/2026-02.csv": "e676db632c1c922376c78f1984dbcb03ccee6d52b13e592d1b16fa504a71f5ea",
    "orders/2026-03.csv": "e65663ab14d9ded5f612d7b53ab02e4dd83c8afcef1c6a3207d7cd073ec4781d",
    "orders/2026-04.csv": "7f89f71698ad7fcf3be23c70cb331ec39a94efe8cf3c99b37d4baf2918a05bc5",
    "orders/2026-05.csv": "b9fb7074c9006f50385470ee2e1804927f478706f651570b00e7438fd6474b84",
    "orders/2026-06.csv": "00e13e2112f25cc26f3ba842928d9c1ae4c550d469b4e8a07736ec59a1ca6716",
    "orders/2026-07.csv": "31680078404538814a598aac9b3e5c3a77f6873163c6648cd0b5ef77d35753f6",
    "orders/2026-08.csv": "b50881c7891f5bf85860bd4addef5e3419b993efe49c59af64b3e3cd134494df",
    "orders/2026-09.csv": "65ca5629b25112485c10e38430b6f34269a34fa36120f684a49096a58474d25e",
    "orders/2026-10.csv": "b74b81f0b7dfcaf8f3fc1bc1ed12aa7075fb6760f7250c885321b6d978da7203",
    "orders/2026-11.csv": "27e97b822f18090257131907be74766175fa3831ebd496761426f811b41fbae4",
    "orders/2026-12.csv": "be681242bdc102bf175dc982bbe5094d6d96064fd0c6a8df0419f1691ae4002b"
})
expect.nothing_else_changed()
expect.finish()
