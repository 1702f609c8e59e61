"""A window with a word, a field and a button; what the field holds when the button is pressed goes to answer.txt."""

import tkinter
from pathlib import Path

WORD = "heron"


def main() -> None:
    window = tkinter.Tk()
    window.title("Copy the word")
    window.geometry("360x160+100+80")
    label = tkinter.Label(window, text=f"The word is: {WORD}")
    field = tkinter.Entry(window)

    def answer() -> None:
        Path("answer.txt").write_text(field.get() + "\n", encoding="utf-8")
        label.configure(text="Thank you.")

    label.place(x=20, y=20)
    field.place(x=20, y=70, width=320, height=30)
    tkinter.Button(window, text="OK", command=answer).place(x=260, y=115, width=80, height=30)
    window.mainloop()


if __name__ == "__main__":
    main()
