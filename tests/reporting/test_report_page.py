"""The page in a real browser: no errors, no requests; legend and slider work."""

import fake_runs
import pytest
from browser import chromium, executable

from skillscape.reporting.files import write_report
from skillscape.reporting.report import gather

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium on this machine; `apt-get install chromium` brings one"
)
SCENE = ".scope[data-scene]"
LEGEND = f"{SCENE} .legend button"
OPACITIES = (
    "[...document.querySelectorAll('.scene')].map(element => element.data.map(trace => [trace.meta, trace.opacity]))"
)
PLACES = "[...document.querySelectorAll('.scene')].map(element => element.data[0].x.slice(0, 6))"
LINES = "[...document.querySelectorAll('.scene path.js-line')].map(element => element.getAttribute('d'))"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with all kinds of sections, and a folder name that tries to inject HTML."""
    folder = tmp_path_factory.mktemp("report")
    fake_runs.mazes(folder / "runs" / "maze")
    fake_runs.fake_run(folder / "runs" / "<img src=x onerror=alert(1)>", seed=0)
    fake_runs.benchmark(folder / "runs" / "urlb")
    return write_report(gather([folder / "runs"]), folder / "out")[0]


@pytest.fixture(scope="module")
def browser(page):
    """The page in a wide window."""
    with chromium() as tab:
        tab.open(page)
        yield tab


@pytest.fixture
def tab(browser):
    """The open page as it was at first: nothing is pointed at, the slider is at its end."""
    yield browser
    browser.leave()
    browser.press(f"{SCENE} .slider input", "End", 35)
    browser.until(f"document.querySelector('{SCENE}').dataset.highlighted === undefined")
    assert browser.errors == []


def shown(tab):
    return {key: opacity for panel in tab.run(OPACITIES) for key, opacity in panel if key is not None}


def test_it_loads_without_errors_and_requests(tab, page):
    assert [url for url in tab.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
    drawn = tab.run(
        "[document.querySelectorAll('.js-plotly-plot').length, document.querySelectorAll('.chart, .scene').length]"
    )
    assert drawn[0] == drawn[1] > 10
    assert tab.run("document.querySelectorAll('.chart .scatterlayer .trace').length") > 20


def test_names_of_folders_are_text(tab):
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert "<img src=x onerror=alert(1)>" in tab.run("document.querySelector('.panels').textContent")


def test_pointing_at_a_skill_highlights_it_in_every_panel(tab):
    before = shown(tab)
    assert len(set(before.values())) == 1
    tab.point(f'{LEGEND}[data-key="2"]')
    tab.until(f"document.querySelector('{SCENE}').dataset.highlighted === '2'")
    highlighted = shown(tab)
    assert highlighted[2] == 1
    assert all(opacity < 0.2 for key, opacity in highlighted.items() if key != 2)
    assert tab.run("[...document.querySelectorAll('.map.dim')].every(element => element.dataset.key !== '2')")
    assert tab.run("document.querySelectorAll('.map.dim').length") > 0
    tab.leave()
    tab.until(f"document.querySelector('{SCENE}').dataset.highlighted === undefined")
    assert shown(tab) == before


def test_the_slider_moves_every_panel(tab):
    late, lines = tab.run(PLACES), tab.run(LINES)
    caption = tab.run("document.querySelector('.panel figcaption').textContent")
    tab.press(f"{SCENE} .slider input", "Home", 36)
    tab.until(f"document.querySelector('{SCENE}').dataset.step === '0'")
    early = tab.run(PLACES)
    assert all(place != other for place, other in zip(early, late, strict=True))
    assert tab.run(LINES) != lines
    assert tab.run(f"document.querySelector('{SCENE} output').textContent") == "0 steps"
    assert tab.run("document.querySelector('.panel figcaption').textContent") != caption
    tab.press(f"{SCENE} .slider input", "End", 35)
    tab.until(f"document.querySelector('{SCENE}').dataset.step === '2400'")
    assert tab.run(PLACES) == late


def test_a_highlight_survives_the_slider(tab):
    tab.point(f'{LEGEND}[data-key="1"]')
    tab.until(f"document.querySelector('{SCENE}').dataset.highlighted === '1'")
    tab.run(
        f"(() => {{const element = document.querySelector('{SCENE} .slider input'); element.value = 0;"
        "element.dispatchEvent(new Event('input'))})()"
    )
    tab.until(f"document.querySelector('{SCENE}').dataset.step === '0'")
    assert shown(tab)[1] == 1
    assert shown(tab)[0] < 0.2


def test_play_goes_through_training(tab):
    tab.run(f"document.querySelector('{SCENE} .play').click()")
    tab.until(f"document.querySelector('{SCENE}').dataset.step === '0'")
    tab.until(f"document.querySelector('{SCENE}').dataset.step === '2400'")


def test_pointing_at_a_method_highlights_its_curves(tab):
    tab.point('.scope:not([data-scene]) .legend button[data-key="0"]')
    tab.until("document.querySelector('.scope:not([data-scene])').dataset.highlighted === '0'")
    opacities = tab.run("document.querySelector('.chart').data.map(element => [element.meta, element.opacity])")
    assert all((opacity == 1) == (key == 0) for key, opacity in opacities)


def test_videos_play_from_inside_the_page(tab):
    if not tab.run("document.createElement('video').canPlayType('video/mp4; codecs=\"avc1.64000A\"')"):
        pytest.skip("this Chromium has no H.264")
    tab.until("[...document.querySelectorAll('video')].every(element => element.videoWidth === 16)")
    assert tab.run("document.querySelectorAll('video').length") == 2


@pytest.fixture(scope="module")
def phone(browser, page):
    """The page on a phone, loaded anew."""
    browser.open(page, 390, 844, phone=True)
    return browser


def test_a_phone_does_not_scroll_sideways(phone):
    assert phone.run("document.documentElement.scrollWidth") == 390
    wide = phone.run(
        "[...document.querySelectorAll('.js-plotly-plot, .main-svg, .panel, .map, video, .controls')]"
        ".filter(element => element.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0
    lines = phone.run(
        "[...document.querySelectorAll('tbody th')].filter(element => /^\\w+$/.test(element.textContent))"
        ".map(element => {const range = document.createRange(); range.selectNodeContents(element);"
        "return range.getClientRects().length})"
    )
    assert lines
    assert set(lines) == {1}
    assert phone.errors == []


def test_a_tap_keeps_the_highlight_and_a_second_removes_it(phone):
    phone.tap(f'{LEGEND}[data-key="3"]')
    phone.until(f"document.querySelector('{SCENE}').dataset.highlighted === '3'")
    assert phone.run(f"document.querySelector('{LEGEND}[data-key=\"3\"]').getAttribute('aria-pressed')") == "true"
    phone.tap(f'{LEGEND}[data-key="3"]')
    phone.until(f"document.querySelector('{SCENE}').dataset.highlighted === undefined")


def test_it_follows_the_dark_mode_of_the_browser(phone):
    ink = "document.querySelector('.chart').layout.font.color"
    light = phone.run(ink)
    phone.dark()
    phone.until(f"{ink} !== {light!r}")
    assert phone.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert phone.errors == []
