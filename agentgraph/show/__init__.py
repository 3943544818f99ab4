"""Shows trees and runs to people: outlines, drawings, lines of events, live trees."""
