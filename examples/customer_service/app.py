"""A clerk of a garden shop: advice, the cart, planting services, discounts that a manager approves."""

import sys
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from langchain_core.messages import ToolMessage
from pydantic import Field

import agentgraph as ag
from examples.customer_service.offline import CART, CRM, CUSTOMER, GOOD_FOR, PRODUCTS, SCRIPTS
from examples.models import model_or_script
from examples.play import play

LIMITS = {"percent": 10, "dollars": 20}
TextAndValues = list[str | ag.SetValues]


def send_video_link(ctx: ag.Context) -> str:
    """Send the customer a link to a video call, to show a plant."""
    return f"The link is sent to {ctx.values['customer']['phone']}."


def view_cart(ctx: ag.Context) -> dict[str, Any]:
    """Return the products of the cart and their price."""
    cart, discount = ctx.values["cart"], ctx.values["discount"]
    usd = sum(PRODUCTS[product]["usd"] * number for product, number in cart.items())
    names = {PRODUCTS[product]["name"]: number for product, number in cart.items()}
    return {"cart": names, "discount": f"{discount}%", "usd": round(usd * (1 - discount / 100), 2)}


def change_cart(add: dict[str, int], remove: list[str], ctx: ag.Context) -> TextAndValues:
    """Add numbers of products to the cart, and remove products, by their ids."""
    if unknown := add.keys() - PRODUCTS.keys():
        raise ValueError(f"there are no products {sorted(unknown)}")
    kept = {product: n for product, n in ctx.values["cart"].items() if product not in remove}
    cart = {**kept, **{product: kept.get(product, 0) + n for product, n in add.items()}}
    return [f"The cart is changed to {cart}.", ag.SetValues(cart=cart)]


def recommend(plant: str, ctx: ag.Context) -> dict[str, Any]:
    """Return products that are good for a plant, such as petunias, and not in the cart yet."""
    good = GOOD_FOR.get(plant.lower(), ["soil-123", "fert-456"])
    return {product: PRODUCTS[product] for product in good if product not in ctx.values["cart"]}


def check_stock(product: str, store: str) -> str:
    """Return how many of a product, by its id, a store has, or "pickup"."""
    return f"{PRODUCTS[product]['in stock']} at {store}"


def planting_times(day: date, ctx: ag.Context) -> list[str]:
    """Return the free times of planting services on a day."""
    taken = [each["time"] for each in ctx.values["appointments"] if each["day"] == day.isoformat()]
    return [time for time in ("9-12", "13-16") if time not in taken]


def schedule_planting(day: date, time: str, details: str, ctx: ag.Context) -> TextAndValues:
    """Schedule a planting service at a free time."""
    if time not in planting_times(day, ctx):
        raise ValueError(f"{time} is not free on {day}")
    made = {"day": day.isoformat(), "time": time, "details": details}
    appointments = [*ctx.values["appointments"], made]
    return [f"Scheduled: {day}, {time}.", ag.SetValues(appointments=appointments)]


def send_care_instructions(plant: str, by: Literal["email", "sms"], ctx: ag.Context) -> str:
    """Send the customer care instructions for a plant."""
    to = ctx.values["customer"]["email" if by == "email" else "phone"]
    return f"How to care for {plant} is sent to {to}."


def qr_code(discount: float, unit: Literal["percent", "dollars"], days: int) -> str:
    """Make a QR code for a discount on the next purchase in a store: up to 10 percent or 20 dollars."""
    if discount > LIMITS[unit]:
        raise ValueError(f"a code is for at most {LIMITS[unit]} {unit}")
    return f"QR: {discount:g} {unit} off until {date.today() + timedelta(days)}"


def note_in_crm(details: dict[str, str], ctx: ag.Context) -> str:
    """Record a purchase, an appointment or a promise, after it was made."""
    CRM.setdefault(ctx.values["customer"]["id"], {}).update(details)
    return "It is recorded."


def give_discount(percent: Annotated[int, Field(gt=0, le=LIMITS["percent"])]) -> TextAndValues:
    """Grant a discount on the cart that needs no manager."""
    return [f"The cart is {percent}% off.", ag.SetValues(discount=percent)]


def ask_manager(percent: Annotated[int, Field(gt=LIMITS["percent"], le=100)], reason: str) -> str:
    """Ask a manager for a higher discount; the answer arrives later and grants the discount."""
    return f"A manager is asked for {percent}%."


def decide(runner: ag.Runner, thread_id: str, is_approved: bool) -> ag.Result:
    """Add the manager's decision to a paused thread; grant an approved discount."""
    asked = runner.thread(thread_id).open_calls[0]
    text = f"The {asked.args['percent']}% are {'approved' if is_approved else 'rejected'}."
    values = {"discount": asked.args["percent"]} if is_approved else {}
    result = ToolMessage(text, tool_call_id=asked.tool_call_id)
    return runner.invoke(result, thread_id=thread_id, values=values)


@ag.agent
def load(ctx: ag.Context) -> ag.SetValues:
    """Load the customer and the cart, if the thread does not have them yet."""
    initial = {"customer": CUSTOMER, "cart": CART, "discount": 0, "appointments": []}
    missing = {name: value for name, value in initial.items() if name not in ctx.values}
    return ag.SetValues(**missing, today=date.today().isoformat())


clerk = ag.chat_agent(
    "clerk",
    model_or_script("openai:gpt-5-mini", SCRIPTS),
    instruction="You are Project Pro, the clerk of Cymbal Home & Garden. Greet customers by name. Help "
    "them to find out which plant they have, by a video call if they like; recommend products for it "
    "and for their garden and climate, rather than what the cart has; offer planting services, care "
    "instructions, and a QR code to loyal customers. Do not ask what you know about the "
    "customer. Rely on tools, and do not mention them. Today is {today}.\nThe customer: {customer}",
    tools=[
        send_video_link,
        view_cart,
        change_cart,
        recommend,
        check_stock,
        planting_times,
        schedule_planting,
        send_care_instructions,
        qr_code,
        note_in_crm,
        give_discount,
        ag.long_running(ask_manager),
    ],
    approve=["change_cart", "schedule_planting"],  # by the customer
    parallel_tools=False,  # each call sees the values that the previous call wrote
)
customer_service = ag.sequential("customer_service", [load, clerk])


def manager(runner: ag.Runner, thread_id: str) -> ag.Result | None:
    """Approve the discount, if a manager was asked."""
    return decide(runner, thread_id, True) if runner.thread(thread_id).open_calls else None


def main(thread_id: str, decision: str) -> None:
    """Decide as the manager, on a saved thread."""
    with ag.Runner(customer_service, checkpointer="agentgraph.db") as runner:
        print(decide(runner, thread_id, decision == "approve").text)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [thread_id, "approve" | "reject" as decision]:
            main(thread_id, decision)
        case _:
            play(
                customer_service,
                "What do petunias need?",
                "Please exchange what I have.",
                "approve",
                "Can I have 25% off?",
                "And when can you plant them?",
                manager,
            )
