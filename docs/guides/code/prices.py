from mcp.server.fastmcp import FastMCP

server = FastMCP("prices")


@server.tool()
def price(article: str) -> str:
    """Look up the price of an article."""
    return f"{article}: 4 euros"


if __name__ == "__main__":
    server.run()
