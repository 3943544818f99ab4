"""A customer, a catalogue, and a script instead of the model of the garden shop's clerk."""

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

CUSTOMER = {
    "id": "123",
    "name": "Alex Johnson",
    "email": "alex.johnson@example.com",
    "phone": "+1-702-555-1212",
    "customer since": "2022-06-10",
    "city": "Las Vegas",
    "store": "Anytown Garden Store",
    "points": 133,
    "bought": ["All-Purpose Fertilizer", "Gardening Trowel", "Tomato Seeds", "Pruning Shears"],
    "garden": {"type": "backyard", "size": "medium", "sun": "full", "likes": ["flowers", "vegetables"]},
}
CART = {"soil-123": 1, "fert-456": 1}
PRODUCTS: dict[str, dict[str, Any]] = {
    "soil-123": {"name": "Standard Potting Soil", "usd": 10.99, "in stock": 10},
    "fert-456": {"name": "General Purpose Fertilizer", "usd": 14.99, "in stock": 10},
    "soil-456": {"name": "Bloom Booster Potting Mix", "usd": 15.99, "in stock": 10},
    "fert-789": {"name": "Flower Power Fertilizer", "usd": 12.99, "in stock": 3},
}
GOOD_FOR = {"petunias": ["soil-456", "fert-789"]}
CRM: dict[str, dict[str, Any]] = {}
"""Records by customer id."""


SWAP = call("change_cart", add={"soil-456": 1, "fert-789": 1}, remove=["soil-123", "fert-456"])
PLANT = call("schedule_planting", day="2027-05-02", time="9-12", details="petunias")
CALLS = {
    "petunias need": call("recommend", plant="Petunias"),
    "exchange": SWAP,
    "25% off": call("ask_manager", "asked", percent=25, reason="A competitor is cheaper."),
    "when": call("planting_times", day="2027-05-02"),
    "9-12": PLANT,
    "code": call("qr_code", discount=50, unit="percent", days=30),
    "care": call("send_care_instructions", plant="petunias", by="email"),
    "": call("view_cart"),
}
"""Tool calls of the clerk by words of the customer; the first match counts."""


def _clerk(messages: list[BaseMessage]) -> str | AIMessage:
    last = max(n for n, message in enumerate(messages) if message.type == "human")
    asked, result = messages[last].text, messages[-1].text
    if last == len(messages) - 1:
        return calls(next(made for words, made in CALLS.items() if words in asked))
    match str(messages[-1].name):
        case "view_cart" if "approved" in asked:
            return f"The manager agrees! Now it is {result}"
        case "view_cart":
            return f"Hello Alex! You have {result}"
        case "recommend":
            return f"These are good for them: {result}. Shall I exchange what is in the cart?"
        case "ask_manager":
            return f"{result} Meanwhile, what else can I do?"
        case "planting_times":
            return f"We can come at one of {result}."
        case "schedule_planting" if "Scheduled" in result:
            return calls(call("note_in_crm", details={"appointment": "planting"}))
        case "qr_code" if "at most 10" in result:
            return calls(call("qr_code", discount=10, unit="percent", days=30))
    return result


SCRIPTS: dict[str, Script] = {"clerk": _clerk}
