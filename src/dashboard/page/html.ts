export const html: string = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>Rate limits</title>
    <link rel="icon" href="icon.svg" />
    <link rel="stylesheet" href="style.css" />
    <script type="module" src="main.js"></script>
  </head>
  <body>
    <a class="skip" href="#content">Skip to content</a>
    <header>
      <h1>Rate limits</h1>
      <p id="connection" role="status" data-state="waiting">Connecting…</p>
    </header>
    <main id="content" tabindex="-1">
      <div id="problems" role="alert"></div>
      <section aria-labelledby="now-title">
        <h2 id="now-title">Now</h2>
        <dl class="tiles">
          <div><dt>Allowed per second</dt><dd id="now-allowed">0</dd></div>
          <div><dt>Denied per second</dt><dd id="now-denied">0</dd></div>
          <div><dt>Shadow-denied per second</dt><dd id="now-shadow">0</dd></div>
        </dl>
        <p id="denying" class="quiet">No limit denies requests now.</p>
        <p class="quiet">
          Each request counts once. Shadow-denied requests are admitted: a limit with <code>shadow: true</code> would have denied them.
        </p>
        <p id="announcement" class="unseen" aria-live="polite"></p>
      </section>

      <section aria-labelledby="plot-title">
        <h2 id="plot-title">Since the start</h2>
        <p id="since" class="quiet"></p>
        <p><label for="chosen">Limit</label> <select id="chosen"></select></p>
        <figure>
          <figcaption>Requests per second</figcaption>
          <div class="chart">
            <p id="plot-axis" class="quiet" aria-hidden="true"><span></span><span></span><span></span></p>
            <div id="plot"></div>
            <p class="axis quiet"><span id="plot-start"></span><span>now</span></p>
          </div>
          <ul class="legend" aria-label="Legend">
            <li><span class="key allowed"></span>allowed</li>
            <li><span class="key denied"></span>denied</li>
            <li><span class="key shadow"></span>shadow-denied</li>
          </ul>
        </figure>
        <details>
          <summary>Show as a table</summary>
          <table>
            <caption class="quiet">Requests in each minute</caption>
            <thead>
              <tr>
                <th scope="col">Minute</th>
                <th scope="col">Allowed</th>
                <th scope="col">Denied</th>
                <th scope="col">Shadow</th>
              </tr>
            </thead>
            <tbody id="minutes"></tbody>
          </table>
        </details>
      </section>

      <section aria-labelledby="limits-title">
        <h2 id="limits-title">Limits</h2>
        <table class="stacked">
          <caption class="quiet">
            Requests per second now. Near: the share of admitted requests in the time of the plot that left less than a fifth of the limit.
          </caption>
          <thead>
            <tr>
              <th scope="col">Limit</th>
              <th scope="col">Allowed</th>
              <th scope="col">Denied</th>
              <th scope="col">Shadow</th>
              <th scope="col">Near</th>
            </tr>
          </thead>
          <tbody id="limits"></tbody>
        </table>
        <p id="no-limits" class="quiet">No decision yet.</p>
      </section>

      <section aria-labelledby="top-title">
        <h2 id="top-title">Most denied keys</h2>
        <table id="top-table" class="stacked" hidden>
          <caption class="quiet">Denials in the last ten minutes</caption>
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Limit</th>
              <th scope="col">Denied</th>
              <th scope="col">Action</th>
            </tr>
          </thead>
          <tbody id="top"></tbody>
        </table>
        <p id="no-top" class="quiet">No key was denied.</p>
      </section>

      <section aria-labelledby="keys-title">
        <h2 id="keys-title">Look up a key</h2>
        <form id="look-up" autocomplete="off">
          <p>
            <label for="limiter">Limiter</label>
            <input id="limiter" list="limiters" maxlength="1000" required />
            <datalist id="limiters"></datalist>
          </p>
          <p><label for="key">Key</label> <input id="key" maxlength="1000" spellcheck="false" /></p>
          <p><button type="submit">Look up</button></p>
        </form>
        <p id="answer" role="status" tabindex="-1"></p>
        <table id="found" class="stacked" hidden>
          <caption id="found-title"></caption>
          <thead>
            <tr>
              <th scope="col">Limit</th>
              <th scope="col">State</th>
              <th scope="col">Used</th>
              <th scope="col">Left</th>
              <th scope="col">Resets</th>
            </tr>
          </thead>
          <tbody id="states"></tbody>
        </table>
        <p><button id="reset" type="button" class="danger" hidden>Reset this key…</button></p>
        <dialog id="confirm" aria-labelledby="confirm-title">
          <h3 id="confirm-title">Reset this key?</h3>
          <p id="confirm-text"></p>
          <p class="buttons">
            <button id="cancel" type="button">Cancel</button>
            <button id="confirm-reset" type="button" class="danger">Reset</button>
          </p>
        </dialog>
      </section>

      <section aria-labelledby="state-title">
        <h2 id="state-title">Stores and rules</h2>
        <ul id="stores"></ul>
        <ul id="rules"></ul>
        <p id="no-state" class="quiet">No store or rules have reported a state.</p>
      </section>
    </main>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
`
