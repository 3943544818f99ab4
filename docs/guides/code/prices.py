from mcp.server.fastmcp import FastMCP

server = FastMCP("prices")


@server.tool()
def price(article: str) -> str:
    """Say what an article costs."""
    return f"{article}: 4 euros"


if __name__ == "__main__":
    server.run()
