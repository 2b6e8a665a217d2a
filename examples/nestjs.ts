// Run it: npm run build && npm run build:examples && node dist/examples/nestjs.js
//
// A Nest app with limits: one for the whole app, and a stricter one for a handler. Nest needs `experimentalDecorators`.
import 'reflect-metadata'
import type { Server } from 'node:http'
import { Controller, Get, HttpCode, Module, Post, Req } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { type Decision, gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, RateLimit, RateLimitGuard, RateLimitModule } from 'sluice/nestjs'
import { board } from './operator.ts'
import { serve } from './visits.ts'

@Controller()
class AppController {
  @Get()
  hello(@Req() request: { readonly rateLimit?: Decision }): string {
    return `hello, you have ${request.rateLimit?.remaining} left`
  }

  // The limits of a handler replace those of the app: at most 3 logins in any 15 minutes.
  @Post('login')
  @HttpCode(200)
  @RateLimit({ limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
  login(): string {
    return 'welcome'
  }
}

// All handlers: 5 requests at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })

@Module({
  imports: [RateLimitModule.forRoot({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] })],
  controllers: [AppController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })

// The dashboard is a middleware, so it comes before the guard, and a limit cannot lock you out of it.
app.use(board)

await app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
const server = app.getHttpServer() as Server
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
