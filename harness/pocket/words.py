"""The vocabulary of the generated tool-calling task: parameters with their values, tools with their parameters."""

from __future__ import annotations

from dataclasses import dataclass

Value = str | int


@dataclass(frozen=True)
class Parameter:
    """``before`` and ``after`` stand around the value in a query; text values are quoted, numbers are not."""

    before: str
    values: tuple[Value, ...]
    after: str = ""

    def phrase(self, value: Value) -> str:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        return f"{self.before} {shown}{self.after}"


@dataclass(frozen=True)
class Tool:
    """``openings`` are ways to ask for it."""

    openings: tuple[str, ...]
    parameters: tuple[str, ...]


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


PARAMETERS: dict[str, Parameter] = {
    "city": Parameter("in", _split("Oslo Paris Rome Lima Cairo Delhi Tokyo Quito Perth Miami Seoul Dublin")),
    "days": Parameter("for", tuple(range(1, 15)), " days"),
    "name": Parameter("called", _split("Anna Ben Clara David Emma Felix Grace Henry Iris Jonas Kate Leo")),
    "item": Parameter("of", _split("bread milk chairs books lamps apples shoes tickets pens cups maps coins")),
    "amount": Parameter("with amount", tuple(range(5, 105, 5))),
    "color": Parameter("colored", _split("red blue green black white yellow purple orange")),
    "unit": Parameter("measured by", _split("meter mile gram pound liter inch")),
    "topic": Parameter("about", _split("music history chess space cooking tennis poetry trains birds art")),
    "hour": Parameter("at", tuple(range(24)), " hours"),
    "language": Parameter("written as", _split("French German Spanish Latin Korean Greek Danish Welsh")),
}

TOOLS: dict[str, Tool] = {
    "get_weather": Tool(("show the weather", "will it rain"), ("city", "days")),
    "book_hotel": Tool(("book a hotel", "reserve a room"), ("city", "days", "name")),
    "buy_item": Tool(("buy a pack", "put this into my basket"), ("item", "amount", "color")),
    "send_mail": Tool(("send a mail", "write a letter"), ("name", "topic")),
    "find_books": Tool(("find some books", "search the library"), ("topic", "language")),
    "set_alarm": Tool(("wake me", "set an alarm"), ("hour",)),
    "convert_unit": Tool(("convert this value", "change the unit"), ("amount", "unit")),
    "translate_text": Tool(("translate a text", "say it"), ("topic", "language")),
    "call_taxi": Tool(("call a taxi", "get me a cab"), ("city", "hour", "name")),
    "paint_wall": Tool(("paint the wall", "give the room a coat"), ("color", "amount")),
    "get_news": Tool(("read the news", "what is new"), ("topic", "days", "city")),
    "pay_bill": Tool(("pay the bill", "transfer money"), ("name", "amount")),
    "find_route": Tool(("find the route", "how do I drive"), ("city", "unit")),
    "plan_party": Tool(("plan a party", "host a dinner"), ("name", "hour", "item")),
    "track_order": Tool(("track the order", "where is my parcel"), ("item", "days")),
    "get_time": Tool(("what time is it", "look at the clock"), ("city",)),
}
